package dev.penstock.links;

import java.util.Map;

/** What led to the installation of the app, as far as the server knows. */
public final class FirstOpen {
    public final boolean matched;
    /** Where to go in the app; null when no link led to it. */
    public final String destinationPath;
    /** Such as install_referrer; null without a match. */
    public final String method;
    /** The visitor, to use from now on. */
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
