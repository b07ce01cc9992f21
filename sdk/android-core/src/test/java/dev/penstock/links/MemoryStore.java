package dev.penstock.links;

import java.util.HashMap;
import java.util.Map;

/** What outlives a run of an app, for tests. */
final class MemoryStore implements FirstOpenResolver.Store {
    private final Map<String, String> texts = new HashMap<>();

    @Override
    public String get(String key) {
        return texts.get(key);
    }

    @Override
    public void put(String key, String value) {
        texts.put(key, value);
    }
}
