package dev.penstock.links;

import java.util.Map;

/** The server's answer: what led to the installation of the app. */
public final class FirstOpen {
    public final boolean matched;
    /** The place in the app to open; null if no link led to the app. */
    public final String destinationPath;
    /** The method of the match, such as install_referrer; null if there is no match. */
    public final String method;
    /** The visitor ID to use from now on. */
    public final String visitorId;
    /** Why there is no match; null for a match. */
    public final String reason;

    FirstOpen(Map<String, Object> fields) {
        matched = Boolean.TRUE.equals(fields.get("matched"));
        destinationPath = text(fields, "destinationPath");
        method = text(fields, "method");
        visitorId = text(fields, "visitorId");
        reason = text(fields, "reason");
    }

    private static String text(Map<String, Object> fields, String name) {
        Object value = fields.get(name);
        return value instanceof String ? (String) value : null;
    }
}
