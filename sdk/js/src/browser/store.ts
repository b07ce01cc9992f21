import { withMemoryFallback, type Store } from "../core/store";

/** Returns a store in `localStorage`, or in memory if that is not available. */
export function browserStore(): Store {
  return withMemoryFallback({
    keys: () => Object.keys(localStorage),
    get: (key) => localStorage.getItem(key),
    set: (key, value) => localStorage.setItem(key, value),
    remove: (key) => localStorage.removeItem(key),
  });
}

const YEAR_S = 365 * 24 * 3_600;

/**
 * Returns the given store, with one key, the visitor's, in a cookie that sub-domains share. The
 * key's value must not need escaping.
 */
export function withSharedCookie(store: Store, key: string, domain: string): Store {
  const write = (wanted: string, value: string): void => {
    if (wanted !== key) return;
    const scope = `Domain=${domain};Path=/;Max-Age=${value ? YEAR_S : 0};SameSite=Lax`;
    document.cookie = `${key}=${value};${scope}${isSecureContext ? ";Secure" : ""}`;
  };
  return {
    ...store,
    get(wanted) {
      const shared = `; ${document.cookie}`.split(`; ${wanted}=`)[1]?.split(";")[0];
      if (shared) return shared;
      const own = store.get(wanted);
      if (own) write(wanted, own); // The store may hold a visitor from before the cookie existed.
      return own;
    },
    set(wanted, value) {
      write(wanted, value);
      store.set(wanted, value);
    },
    remove(wanted) {
      write(wanted, "");
      store.remove(wanted);
    },
  };
}
