/** Strings by key that outlive the page or process. Any call may throw, like `localStorage`. */
export interface Store {
  keys(): string[];
  get(key: string): string | null;
  set(key: string, value: string): void;
  remove(key: string): void;
}

export function memoryStore(): Store {
  const values = new Map<string, string>();
  return {
    keys: () => [...values.keys()],
    get: (key) => values.get(key) ?? null,
    set: (key, value) => void values.set(key, value),
    remove: (key) => void values.delete(key),
  };
}

/**
 * Returns the given store, with memory as a fallback for writes that fail: in private mode, or if
 * storage is full or forbidden.
 */
export function withMemoryFallback(store: Store): Store {
  const memory = memoryStore();
  const attempt = <T>(use: () => T, otherwise: T): T => {
    try {
      return use();
    } catch {
      return otherwise;
    }
  };
  return {
    keys: () => [...attempt(() => store.keys(), []), ...memory.keys()],
    get: (key) => memory.get(key) ?? attempt(() => store.get(key), null),
    set(key, value) {
      try {
        store.set(key, value);
        memory.remove(key);
      } catch {
        memory.set(key, value);
      }
    },
    remove(key) {
      memory.remove(key);
      attempt(() => store.remove(key), undefined);
    },
  };
}

/** Moves all entries from one store to another. */
export function moveAll(from: Store, to: Store): void {
  for (const key of from.keys()) {
    to.set(key, from.get(key) ?? "");
    from.remove(key);
  }
}
