package dev.penstock.links;

import java.util.Map;

/** The server's answer: what led to the installation of the app. */
public final class FirstOpen {
    public final boolean matched;
    /** Where to go in the app; null if no link led to it. */
    public final String destinationPath;
    /** The method, such as install_referrer; null without a match. */
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
