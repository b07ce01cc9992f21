package dev.penstock.links;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.junit.Test;

/** The vectors that every client and the server run: sdk/vectors/deferred-links.json. */
@SuppressWarnings("unchecked")
public class VectorsTest {
    private static final Map<String, Object> VECTORS = load();
    private static final List<String> HOSTS = (List<String>) VECTORS.get("linkHosts");

    private static Map<String, Object> load() {
        try {
            byte[] bytes = Files.readAllBytes(Paths.get(System.getProperty("vectors")));
            return (Map<String, Object>) Json.read(new String(bytes, StandardCharsets.UTF_8));
        } catch (java.io.IOException error) {
            throw new AssertionError(error);
        }
    }

    private static List<Map<String, Object>> cases(String kind) {
        List<Map<String, Object>> cases = (List<Map<String, Object>>) VECTORS.get(kind);
        assertTrue(cases.size() > 3);
        return cases;
    }

    private static String name(Map<String, Object> vector) {
        return (String) vector.get("name");
    }

    @Test
    public void referrers() {
        for (Map<String, Object> vector : cases("referrers")) {
            String token = LinkEvidence.tokenOfReferrer((String) vector.get("referrer"));
            assertEquals(name(vector), vector.get("token"), token);
        }
    }

    @Test
    public void linksThatWereCopied() {
        for (Map<String, Object> vector : cases("clipboards")) {
            String token = LinkEvidence.tokenOfLink((String) vector.get("text"), HOSTS);
            assertEquals(name(vector), vector.get("token"), token);
        }
    }

    @Test
    public void bodiesOfAndroid() {
        int count = 0;
        for (Map<String, Object> vector : cases("bodies")) {
            Map<String, String> app = (Map<String, String>) vector.get("app");
            Map<String, String> evidence = (Map<String, String>) vector.get("evidence");
            if (!app.get("platform").equals("android")) {
                continue;
            }
            String body =
                    new App(app.get("website"), HOSTS, app.get("visitorId"), app.get("osVersion"), app.get("appVersion"))
                            .firstOpenBody(app.get("installId"), evidence.get("installReferrer"), evidence.get("url"));
            assertEquals(name(vector), vector.get("body"), Json.read(body));
            count++;
        }
        assertEquals(3, count);
    }

    @Test
    public void answers() {
        for (Map<String, Object> vector : cases("answers")) {
            Answer answer = answer(vector);
            String action = answer.action().name().toLowerCase(Locale.ROOT);
            assertEquals(name(vector), vector.get("action"), action);
            if (action.equals("finish")) {
                String destination = new FirstOpen(answer.fields()).destinationPath;
                assertEquals(name(vector), vector.get("destinationPath"), destination);
            }
        }
    }

    private static Answer answer(Map<String, Object> vector) {
        String retryAfter = (String) vector.get("retryAfter");
        return new Answer(((Double) vector.get("status")).intValue(), text(vector.get("body")), retryAfter);
    }

    /** As JSON; null as the page of a proxy. */
    private static String text(Object body) {
        if (body == null) {
            return "<html>";
        }
        StringBuilder out = new StringBuilder();
        for (Map.Entry<String, Object> field : ((Map<String, Object>) body).entrySet()) {
            Object value = field.getValue();
            String spelled =
                    value instanceof String
                            ? new Json.Writer().text("a", (String) value).end().replaceAll("^\\{\"a\":|\\}$", "")
                            : value instanceof Map ? text(value) : String.valueOf(value);
            out.append(out.length() == 0 ? "{" : ",").append('"').append(field.getKey()).append("\":").append(spelled);
        }
        return out.append("}").toString();
    }

    // What the resolver does with answers

    private final FirstOpenResolver.Store store = new MemoryStore();
    private final List<String> bodies = new ArrayList<>();
    private final List<Long> pauses = new ArrayList<>();

    private FirstOpenResolver resolver(Answer... answers) {
        List<Answer> left = new ArrayList<>(java.util.Arrays.asList(answers));
        FirstOpenResolver.Transport transport =
                (path, body) -> {
                    assertEquals(FirstOpenResolver.PATH, path);
                    bodies.add(body);
                    Answer answer = left.remove(0);
                    if (answer.status == 0) {
                        throw new java.io.IOException("no network");
                    }
                    return answer;
                };
        return new FirstOpenResolver(new App("web_1", HOSTS, null, null, null), store, transport, pauses::add);
    }

    private static Answer match() {
        return answer(((List<Map<String, Object>>) VECTORS.get("answers")).get(0));
    }

    private static Answer status(int status, String retryAfter) {
        return new Answer(status, null, retryAfter);
    }

    @Test
    public void itIsTriedWithOneBodyUntilTheServerHasAnsweredAndThenNeverAgain() throws Exception {
        FirstOpenResolver resolver = resolver(status(0, null), status(429, "7"), status(200, null), match());
        String referrer = "ct=Zb3v1o9xQ2mS8rT4uW6yAA&utm_source=x";
        assertEquals("/offers/42?from=mail", resolver.resolve(() -> referrer, null).destinationPath);
        assertEquals(java.util.Arrays.asList(1_000L, 7_000L, 4_000L), pauses);
        assertEquals(1, new java.util.HashSet<>(bodies).size());
        assertTrue(bodies.get(0).contains("\"installReferrer\":\"ct=Zb3v1o9xQ2mS8rT4uW6yAA\""));
        assertEquals(null, resolver.resolve(() -> referrer, null));
        assertEquals(4, bodies.size());
    }

    @Test
    public void aLaterRunSendsTheEvidenceOfTheFirst() throws Exception {
        assertEquals(null, resolver(status(422, null)).resolve(() -> "ct=Zb3v1o9xQ2mS8rT4uW6yAA", null));
        assertTrue(resolver(match()).resolve(() -> "changed", null).matched);
        assertEquals(bodies.get(0), bodies.get(1));
    }

    @Test
    public void evidenceThatCannotBeReadIsNone() throws Exception {
        assertTrue(resolver(match()).resolve(() -> { throw new IllegalStateException(); }, () -> null).matched);
        assertTrue(!bodies.get(0).contains("Referrer"));
    }

    @Test
    public void textsThatAreNoJsonAreNull() {
        String deep = new String(new char[10_000]).replace("\0", "[");
        for (String text : new String[] {"", "{", "{\"a\"", "\"\\x\"", "{} x", "[1,]", "nul", "{\"a\":1,}", deep}) {
            assertEquals(text, null, Json.read(text));
        }
        assertEquals("ä\n\"", Json.read("\"\\u00e4\\n\\\"\""));
    }
}
