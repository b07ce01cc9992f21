package dev.penstock.links;

import java.util.Collection;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Finds click tokens and link URLs in texts. No other part of a text leaves the device. */
public final class LinkEvidence {
    private static final Pattern TOKEN = Pattern.compile("[A-Za-z0-9_-]{16,64}");
    private static final Pattern LINK =
            Pattern.compile("https://([^/?#@]+)/l/[a-z0-9-]{1,64}(?:\\?([^#]*))?(?:#.*)?");
    private static final int MAX_CHARS = 2048;

    private LinkEvidence() {}

    /** The click token in Google Play's install referrer, or null. Some libraries pass it on percent-encoded. */
    public static String tokenOfReferrer(String referrer) {
        if (referrer == null) {
            return null;
        }
        String text = referrer.length() > MAX_CHARS ? referrer.substring(0, MAX_CHARS) : referrer;
        String token = tokenIn(text);
        return token != null
                ? token
                : tokenIn(text.replace("%3D", "=").replace("%3d", "=").replace("%26", "&"));
    }

    /** The click token in the URL of one of our links, or null. linkHosts: in lower case, with a port if there is one. */
    public static String tokenOfLink(String text, Collection<String> linkHosts) {
        String parameters = linkParameters(text, linkHosts);
        return parameters == null ? null : tokenIn(parameters);
    }

    /** Whether a text is the URL of one of our links. */
    public static boolean isLink(String text, Collection<String> linkHosts) {
        return linkParameters(text, linkHosts) != null;
    }

    private static String linkParameters(String text, Collection<String> linkHosts) {
        if (text == null || text.length() > MAX_CHARS) {
            return null;
        }
        Matcher link = LINK.matcher(text.trim());
        if (!link.matches() || !linkHosts.contains(link.group(1).toLowerCase(Locale.ROOT))) {
            return null;
        }
        return link.group(2) == null ? "" : link.group(2);
    }

    private static String tokenIn(String parameters) {
        String token = null;
        for (String part : parameters.split("&")) {
            if (part.startsWith("ct=") && TOKEN.matcher(part.substring(3)).matches()) {
                token = part.substring(3);
            }
        }
        return token;
    }
}
