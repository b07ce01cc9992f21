import { memoryStore, withMemoryFallback, type Store } from "../core/store";

/** `localStorage`; where it cannot be used, memory. */
export function browserStore(): Store {
  let storage: Storage;
  try {
    storage = localStorage;
    storage.length; // Some browsers throw here and not above.
  } catch {
    return memoryStore();
  }
  return withMemoryFallback({
    keys: () => Object.keys(storage),
    get: (key) => storage.getItem(key),
    set: (key, value) => storage.setItem(key, value),
    remove: (key) => storage.removeItem(key),
  });
}

const YEAR_S = 365 * 24 * 3_600;

/**
 * As the given store, but one key, the visitor's, lies in a cookie that sub-domains share. Its value
 * needs no escapes.
 */
export function withSharedCookie(store: Store, key: string, domain: string): Store {
  const write = (value: string, maxAge: number): void => {
    const secure = location.protocol === "https:" ? ";Secure" : "";
    const scope = `Domain=${domain};Path=/;Max-Age=${maxAge};SameSite=Lax${secure}`;
    document.cookie = `${key}=${value};${scope}`;
  };
  return {
    ...store,
    get(wanted) {
      const found = `; ${document.cookie}`.split(`; ${wanted}=`)[1];
      return found?.split(";")[0] || store.get(wanted);
    },
    set(wanted, value) {
      if (wanted === key) write(value, YEAR_S);
      store.set(wanted, value);
    },
    remove(wanted) {
      if (wanted === key) write("", 0);
      store.remove(wanted);
    },
  };
}
