package dev.penstock.links;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A minimal JSON reader and writer. The JDK has none, and every app would depend on a library. */
final class Json {
    private static final int MAX_DEPTH = 32;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Parses JSON into maps, lists, strings, doubles and booleans; null for null and for invalid JSON. */
    static Object read(String text) {
        if (text == null) {
            return null;
        }
        Json json = new Json(text);
        try {
            Object value = json.value(0);
            json.blanks();
            return json.at == text.length() ? value : null;
        } catch (IllegalArgumentException | IndexOutOfBoundsException error) {
            return null;
        }
    }

    private Object value(int depth) {
        if (depth > MAX_DEPTH) {
            throw new IllegalArgumentException("too deep");
        }
        blanks();
        switch (text.charAt(at)) {
            case '{':
                return object(depth);
            case '[':
                return list(depth);
            case '"':
                return string();
            default:
                return word();
        }
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> fields = new LinkedHashMap<>();
        at++;
        if (skips('}')) {
            return fields;
        }
        do {
            blanks();
            String name = string();
            require(':');
            fields.put(name, value(depth + 1));
        } while (skips(','));
        require('}');
        return fields;
    }

    private List<Object> list(int depth) {
        List<Object> items = new ArrayList<>();
        at++;
        if (skips(']')) {
            return items;
        }
        do {
            items.add(value(depth + 1));
        } while (skips(','));
        require(']');
        return items;
    }

    private String string() {
        if (text.charAt(at++) != '"') {
            throw new IllegalArgumentException("no string");
        }
        StringBuilder out = new StringBuilder();
        for (char c; (c = text.charAt(at++)) != '"'; ) {
            out.append(c == '\\' ? escaped() : c);
        }
        return out.toString();
    }

    private char escaped() {
        char c = text.charAt(at++);
        if (c == 'u') {
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        }
        int index = "\"\\/bfnrt".indexOf(c);
        return "\"\\/\b\f\n\r\t".charAt(index); // throws for an unknown escape
    }

    private Object word() {
        int begin = at;
        while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(begin, at);
        switch (word) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                return Double.valueOf(word);
        }
    }

    private void blanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private boolean skips(char c) {
        blanks();
        if (text.charAt(at) != c) {
            return false;
        }
        at++;
        return true;
    }

    private void require(char c) {
        if (!skips(c)) {
            throw new IllegalArgumentException("expected " + c);
        }
    }

    /** Writes one object of strings and flags. */
    static final class Writer {
        private final StringBuilder out = new StringBuilder("{");

        /** Omits the field if the value is null. */
        Writer text(String name, String value) {
            return value == null ? this : field(name, quoted(value));
        }

        Writer flag(String name, boolean value) {
            return field(name, String.valueOf(value));
        }

        String end() {
            return out.append('}').toString();
        }

        private Writer field(String name, String value) {
            out.append(out.length() > 1 ? "," : "").append(quoted(name)).append(':').append(value);
            return this;
        }

        private static String quoted(String value) {
            StringBuilder quoted = new StringBuilder("\"");
            for (char c : value.toCharArray()) {
                if (c < ' ') {
                    quoted.append(String.format("\\u%04x", (int) c));
                } else {
                    quoted.append(c == '"' || c == '\\' ? "\\" : "").append(c);
                }
            }
            return quoted.append('"').toString();
        }
    }
}
