import { Attempt, type AttemptHost, type AttemptOptions } from "./attempt";
import { Clock, type TimeSource } from "./clock";
import { plain } from "./json";
import { IDENTIFY, Queue, TRACK, type Properties } from "./queue";
import { createSender, type Sender, type Transport } from "./sender";
import { memoryStore, moveAll, type Store } from "./store";

export type Consent = "granted" | "denied" | "pending";

export interface CommonOptions {
  /** The ID of the website or app, shown on its page in the dashboard. */
  website: string;
  /** Your own ID for the visitor. Default: a random ID, stored on the device. */
  visitorId?: string;
  /** With `pending`, nothing is stored or sent before `consent("granted")`. Default: `granted`. */
  consent?: Consent | undefined;
  /**
   * Log everything that the server rejects. Default: true on local hosts and in development. Always
   * logged: a missing or wrong `userHash`, an unknown website, and a server that accepts nothing.
   */
  debug?: boolean;
}

export interface Signature {
  /** HMAC-SHA256 of the user ID in hex, from your backend. */
  userHash?: string;
}

export interface Transaction {
  /** Your own ID for the transaction. A second transaction with this ID is a duplicate. */
  id?: string;
  amount?: number;
  /** Three capital letters, such as `EUR`. */
  currency?: string;
  properties?: Properties;
}

/** The part of a client that differs between browsers, apps and tests. */
export interface Platform {
  store: Store;
  /** Age at which this tab sends another tab's events, in milliseconds. Default: 0. */
  adoptAfterMs?: number;
  time: TimeSource;
  transport: Transport;
  newId(): string;
  /** Calls back once the page is shown. */
  whenShown?(call: () => void): void;
  /** Fields of every event, such as `url`. */
  context(): Properties;
  warn(text: string): void;
}

export const VISITOR = "penstock.visitor";
const MAX_WAITING = 1_000;
const SEND_AFTER_MS = 250;

/** Keeps events on the device until the server has acknowledged them. */
export class Client implements AttemptHost {
  readonly tab: number;
  readonly #options: CommonOptions;
  readonly #platform: Platform;
  readonly #clock: Clock;
  readonly #warned = new Set<string>();
  #consent: Consent;
  #store!: Store;
  #queue!: Queue;
  #sender!: Sender;

  constructor(options: CommonOptions, platform: Platform) {
    if (!options.website) throw new TypeError("penstock: website is missing");
    // It has no prototype, because pages may have extended `Object.prototype`.
    this.#options = { __proto__: null, ...options } as CommonOptions;
    this.#platform = platform;
    this.tab = Number(platform.newId().replace(/\D/g, "").slice(-3));
    bindMethods(this, platform.warn);
    this.#clock = new Clock(platform.time, platform.newId());
    this.#consent = this.#options.consent ?? "granted";
    this.#open();
  }

  #open(): void {
    const { store, transport, adoptAfterMs } = this.#platform;
    const isGranted = this.#consent === "granted";
    this.#store = isGranted ? store : memoryStore();
    this.#queue = new Queue(this.#store, MAX_WAITING, adoptAfterMs);
    this.#sender = createSender(this.#queue, this.#clock, transport, (text) => this.#warn(text));
    if (isGranted) this.#sender.schedule(SEND_AFTER_MS);
    else this.#sender.stop();
  }

  #warn(text: string): void {
    // Always log mistakes in the page itself, because only its console can show them.
    const isSaid = this.#options.debug || /userHash|website|without/.test(text);
    if (!isSaid || this.#warned.has(text)) return;
    this.#warned.add(text);
    this.#platform.warn(`penstock: ${text}`);
  }

  get store(): Store {
    return this.#store;
  }

  newId(): string {
    return this.#platform.newId();
  }

  /** The visitor's ID. Without consent, it lasts only for this session. */
  get visitorId(): string {
    const known = this.#options.visitorId ?? this.#store.get(VISITOR);
    if (known) return known;
    const created = this.newId();
    this.#store.set(VISITOR, created);
    return created;
  }

  /** Send a custom event. */
  track(name: string, properties?: Properties): void {
    this.send({ type: "event", name, properties: this.plain(properties) });
  }

  /** For attempts: returns the properties without values that are not allowed in events. */
  plain(properties?: Properties): Properties | undefined {
    if (properties === undefined) return;
    return plain(properties, (name) =>
      this.#warn(`sent without ${name.slice(0, 200)}, which is no JSON or over a limit`),
    );
  }

  /** Send a transaction, such as `purchase`. */
  transaction(name: string, transaction: Transaction = {}): void {
    const { id, amount, currency, properties } = transaction ?? {};
    this.send({
      type: "transaction",
      name,
      properties: {
        ...this.plain(properties),
        ...this.plain({ amount, currency, transactionId: id }),
      },
      dedupeKey: id,
    });
  }

  /** Set the visitor's user. Call it at sign-up and log-in. */
  identify(userId: string, traits?: Properties, signature: Signature = {}): void {
    this.#add(IDENTIFY, { userId, traits: this.plain(traits), userHash: signature?.userHash });
  }

  /** Queue an item of `/api/track`. */
  send(item: Properties): void {
    const id = this.newId();
    this.#add(TRACK, { ...this.#platform.context(), ...item, dedupeKey: item.dedupeKey ?? id }, id);
  }

  #add(path: string, fields: Properties, id = this.newId()): void {
    const add = (): void => {
      if (this.#consent === "denied") return;
      const body = { websiteId: this.#options.website, visitorId: this.visitorId, ...fields };
      this.#queue.add({ path, body, at: this.#clock.next(this.#store) }, id);
      this.#sender.schedule(SEND_AFTER_MS);
    };
    const { whenShown } = this.#platform;
    if (whenShown) whenShown(add);
    else add();
  }

  /** Forget the visitor and its attempts. Call it at log-out. Waiting events are still sent. */
  reset(): void {
    forget(this.#store, "penstock.attempt.");
    void this.visitorId; // Create an ID now, so that no sub-domain continues with the old one.
  }

  /** Set the visitor's consent. `denied` deletes everything stored on the device. */
  consent(state: Consent): void {
    const before = this.#store;
    const { store } = this.#platform;
    this.#consent = state;
    this.#sender.stop();
    if (state === "denied") {
      forget(before, "penstock.");
      forget(store, "penstock.");
    } else if (state === "granted" && before !== store) {
      if (store.get(VISITOR)) before.remove(VISITOR);
      moveAll(before, store);
    }
    this.#open();
  }

  /** Return a journey whose events share an ID and have increasing numbers. */
  attempt(name: string, options: AttemptOptions): Attempt {
    return new Attempt(this, name, options);
  }

  /** Send waiting events. Resolves when the server has acknowledged them or cannot be reached. */
  flush(): Promise<void> {
    return this.#sender.flush();
  }

  /** For platforms: the device is online again. */
  wake(): void {
    this.#sender.wake();
  }

  /**
   * For platforms: the page is closing. `beacon` sends a body and returns whether that was
   * possible.
   */
  leave(beacon: (body: string) => boolean): void {
    this.#sender.leave(beacon);
  }
}

/**
 * Binds methods, so that `const { track } = penstock` works. Catches their errors, so that no error
 * reaches the page. Getters stay unchanged.
 */
function bindMethods(client: object, warn: (text: string) => void): void {
  const methods = client as Record<string, unknown>;
  for (let type = client; (type = Object.getPrototypeOf(type) as object) !== Object.prototype; ) {
    for (const name of Object.getOwnPropertyNames(type)) {
      const method = Object.getOwnPropertyDescriptor(type, name)!.value as unknown;
      if (name === "constructor" || typeof method !== "function") continue;
      if (Object.prototype.hasOwnProperty.call(client, name)) continue; // A subclass overrides it.
      methods[name] = (...values: unknown[]): unknown => {
        try {
          return method.apply(client, values) as unknown;
        } catch (error) {
          warn(`penstock: ${name} failed: ${String(error)}`);
        }
      };
    }
  }
}

/** Removes the visitor and all keys with the prefix. */
function forget(store: Store, prefix: string): void {
  store.remove(VISITOR); // The visitor may be in a cookie, which `keys` does not list.
  for (const key of store.keys()) {
    if (key.startsWith(prefix)) store.remove(key);
  }
}
