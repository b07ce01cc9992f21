package dev.penstock.links;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Scanner;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** The snippet of README.md, over HTTP. */
public class ReadmeTest {
    private static final String TOKEN = "ct=Zb3v1o9xQ2mS8rT4uW6yAA";
    private static final String MATCH = "{\"matched\":true,\"destinationPath\":\"/offers/42\",\"visitorId\":\"v-1\"}";

    private HttpServer server;
    private String host;
    private int status = 200;
    private String received;

    @Before
    public void serve() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext(FirstOpenResolver.PATH, this::answer);
        server.start();
        host = "http://127.0.0.1:" + server.getAddress().getPort();
    }

    @After
    public void close() {
        server.stop(0);
    }

    private void answer(HttpExchange exchange) throws IOException {
        received = new Scanner(exchange.getRequestBody(), "UTF-8").useDelimiter("\\A").next();
        byte[] body = MATCH.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Retry-After", "7");
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    // What an app brings

    private static final class Build {
        static final class VERSION {
            static final String RELEASE = "15";
        }
    }

    private static final class BuildConfig {
        static final String VERSION_NAME = "2.1";
    }

    private final FirstOpenResolver.Store store = new MemoryStore();
    private final String openedUrl = null;
    private String openedPath;

    private static String installReferrer() {
        return TOKEN + "&utm_source=newsletter";
    }

    private void open(String path) {
        openedPath = path;
    }

    private void start() throws InterruptedException {
        // scripts/test-android puts the snippet here.
    }

    @Test
    public void theSnippetOpensTheDestinationOnce() throws Exception {
        start();
        assertEquals("/offers/42", openedPath);
        for (String part : Arrays.asList(TOKEN, "\"web_...\"", "\"osVersion\":\"15\"", "\"appVersion\":\"2.1\"")) {
            assertTrue(received, received.contains(part));
        }
        openedPath = null;
        start();
        assertEquals(null, openedPath);
    }

    @Test
    public void anAnswerHasItsStatusTextAndTimeToRetry() throws Exception {
        for (int each : new int[] {200, 429, 503}) {
            status = each;
            Answer answer = new HttpTransport(host + "/").post(FirstOpenResolver.PATH, "{}");
            assertEquals(each, answer.status);
            assertEquals(MATCH, answer.body);
            assertEquals(7_000, answer.retryAfterMs);
        }
    }
}
