/** Penstock for React Native. Storage comes from the app, such as its AsyncStorage. */
import { Client, type CommonOptions } from "./core/client";
import { deviceTime, httpTransport, newId, reportSilence } from "./core/platform";
import type { Properties } from "./core/queue";
import { memoryStore, type Store } from "./core/store";

export type { Attempt, AttemptOptions } from "./core/attempt";
export type { Consent, Signature, Transaction } from "./core/client";
export type { FirstOpen } from "./core/first-open";
export type { Json, Properties } from "./core/queue";
export { resolveFirstOpen, type Adapter, type FirstOpenOptions } from "./first-open";

/** The required storage methods. `@react-native-async-storage/async-storage` has them. */
export interface AsyncStorage {
  getAllKeys(): Promise<readonly string[]>;
  getItem(key: string): Promise<string | null>;
  setItem(key: string, value: string): Promise<void>;
  removeItem(key: string): Promise<void>;
}

/** The required part of React Native's `AppState`. */
export interface AppState {
  addEventListener(type: "change", listener: (state: string) => void): unknown;
}

export interface Options extends CommonOptions {
  /** The URL of Penstock, such as `https://penstock.example`. */
  host: string;
  storage: AsyncStorage;
  /** Lets the client send waiting events when the app moves to the background or returns. */
  appState?: AppState;
}

export class Penstock extends Client {
  /** Send a view of an app's screen. */
  screen(name: string, properties?: Properties): void {
    this.send({ type: "screenview", screen: name, properties });
  }
}

/**
 * Creates the client of an app. Call it once and await it, because it reads events from earlier
 * runs.
 */
export async function init(options: Options): Promise<Penstock> {
  const { debug = Boolean((globalThis as { __DEV__?: boolean }).__DEV__) } = options;
  const transport = httpTransport(options.host, { "Content-Type": "application/json" });
  let hasWarned = !debug; // Being offline is not an error, so warn only developers, and only once.
  const warnOnce = (text: string): void => {
    if (!hasWarned) console.warn(`penstock: ${text}`);
    hasWarned = true;
  };
  const client = new Penstock(
    { ...options, debug },
    {
      store: await mirrored(options.storage),
      time: deviceTime,
      transport: reportSilence(transport, warnOnce),
      newId,
      context: () => ({}),
      warn: (text) => console.warn(text),
    },
  );
  options.appState?.addEventListener("change", () => client.wake());
  return client;
}

/**
 * Reads everything once, then writes in the background, in order. A failed write is retried once.
 */
async function mirrored(storage: AsyncStorage): Promise<Store> {
  const memory = memoryStore();
  try {
    for (const key of await storage.getAllKeys()) {
      const value = key.startsWith("penstock.") ? await storage.getItem(key) : null;
      if (value !== null) memory.set(key, value);
    }
  } catch {
    // Without storage, the events of this run wait in memory.
  }
  let writes = Promise.resolve();
  const write = (action: () => Promise<void>): void => {
    writes = writes
      .then(action)
      .catch(action)
      .catch(() => undefined);
  };
  return {
    keys: memory.keys,
    get: memory.get,
    set(key, value) {
      memory.set(key, value);
      write(() => storage.setItem(key, value));
    },
    remove(key) {
      memory.remove(key);
      write(() => storage.removeItem(key));
    },
  };
}
