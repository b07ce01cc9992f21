package dev.penstock.links;

import java.io.IOException;
import java.util.UUID;

/**
 * Reports the first open until the server answers, and returns the answer, once per install. Blocks: call it from a
 * background thread.
 */
public final class FirstOpenResolver {
    public static final String PATH = "/api/mobile/deferred-links/resolve";

    private static final String BODY = "penstock.firstOpen.body";
    private static final String DONE = "penstock.firstOpen.done";
    private static final long FIRST_RETRY_MS = 1_000;
    private static final long LAST_RETRY_MS = 60_000;

    /** A store of texts by key that outlives the process, such as SharedPreferences with commit. */
    public interface Store {
        String get(String key);

        void put(String key, String value);
    }

    /** Reads one piece of evidence, or null. */
    public interface Adapter {
        String read() throws Exception;
    }

    /** Posts JSON. */
    public interface Transport {
        Answer post(String path, String body) throws IOException;
    }

    /** Waits for some time, such as Thread::sleep. */
    public interface Pause {
        void pause(long ms) throws InterruptedException;
    }

    private final App app;
    private final Store store;
    private final Transport transport;
    private final Pause pause;

    public FirstOpenResolver(App app, Store store, Transport transport, Pause pause) {
        this.app = app;
        this.store = store;
        this.transport = transport;
        this.pause = pause;
    }

    /**
     * The link that led to the install; null if an earlier call has returned it or the server rejects the report. installReferrer:
     * reads Google Play's install referrer. openedUrl: reads the URL that opened the app.
     */
    public synchronized FirstOpen resolve(Adapter installReferrer, Adapter openedUrl)
            throws InterruptedException {
        if (store.get(DONE) != null) {
            return null;
        }
        String body = store.get(BODY);
        if (body == null) {
            String installId = UUID.randomUUID().toString();
            body = app.firstOpenBody(installId, read(installReferrer), read(openedUrl));
            store.put(BODY, body); // Store it before sending it, so that a retry sends the same body.
        }
        for (int failures = 0; ; failures++) {
            Answer answer = post(body);
            switch (answer.action()) {
                case FINISH:
                    store.put(DONE, "1");
                    return new FirstOpen(answer.fields());
                case STOP:
                    return null;
                default:
                    long backoff = Math.min(FIRST_RETRY_MS << Math.min(failures, 6), LAST_RETRY_MS);
                    pause.pause(Math.max(backoff, answer.retryAfterMs));
            }
        }
    }

    private Answer post(String body) {
        try {
            return transport.post(PATH, body);
        } catch (IOException error) {
            return new Answer(0, null, null);
        }
    }

    private static String read(Adapter adapter) throws InterruptedException {
        try {
            return adapter == null ? null : adapter.read();
        } catch (InterruptedException error) {
            throw error;
        } catch (Exception error) {
            return null; // Unreadable evidence counts as none.
        }
    }
}
