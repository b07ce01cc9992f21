package dev.penstock.links;

import java.util.Map;

/** An answer from the server. Status 0 means that there was no answer. */
public final class Answer {
    /** The next action: finish, stop because the app made a mistake, or retry. */
    enum Action { FINISH, STOP, RETRY }

    final int status;
    final String body;
    final long retryAfterMs;

    /** body: the body, or null. retryAfter: the header, or null. */
    public Answer(int status, String body, String retryAfter) {
        this.status = status;
        this.body = body;
        this.retryAfterMs = milliseconds(retryAfter);
    }

    Action action() {
        if (status == 200 && fields() != null && fields().get("matched") instanceof Boolean) {
            return Action.FINISH;
        }
        boolean isMistake = status >= 400 && status < 500 && status != 408 && status != 429;
        return isMistake ? Action.STOP : Action.RETRY;
    }

    /** The fields of a JSON object; null for anything else, such as a proxy's page. */
    @SuppressWarnings("unchecked")
    Map<String, Object> fields() {
        Object value = Json.read(body);
        return value instanceof Map ? (Map<String, Object>) value : null;
    }

    private static long milliseconds(String retryAfter) {
        try {
            long seconds = retryAfter == null ? 0 : Long.parseLong(retryAfter.trim());
            return Math.max(0, Math.min(seconds, 86_400)) * 1000;
        } catch (NumberFormatException date) {
            return 0;
        }
    }
}
