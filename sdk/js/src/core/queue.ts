import type { Moment } from "./clock";
import { toJson } from "./json";
import type { Store } from "./store";

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json | undefined };
export type Properties = { [key: string]: Json | undefined };

/** A request that waits to be acknowledged by the server. */
export interface Entry {
  /** The path of its route, such as `/api/track`. */
  path: string;
  body: Properties;
  at: Moment;
  /** Whether the entry's page was closed, so that any other page may send the entry now. */
  isLeft?: boolean;
}

export type KeyedEntry = Entry & { key: string };

export const TRACK = "/api/track";
export const IDENTIFY = "/api/identify";

const PREFIX = "penstock.event.";
const DROPPED = "penstock.dropped";

/** Waiting entries. Each has its own key, so that tabs never overwrite each other's entries. */
export class Queue {
  readonly #store: Store;
  readonly #limit: number;
  readonly #adoptAfterMs: number;
  #count = 0;
  #added = 0;

  /**
   * `adoptAfterMs`: age at which another client's entries may be sent. Until then, that client may
   * be sending them itself.
   */
  constructor(store: Store, limit: number, adoptAfterMs = 0) {
    this.#adoptAfterMs = adoptAfterMs;
    this.#store = store;
    this.#limit = limit;
    this.#count = this.keys().length;
  }

  /** The keys of waiting entries. */
  keys(): string[] {
    return this.#store.keys().filter((key) => key.startsWith(PREFIX));
  }

  /** Add an entry. Beyond the limit, events are dropped and counted. */
  add(entry: Entry, id: string): void {
    if (this.#count >= this.#limit) this.#count = this.keys().length;
    const isEvent = entry.path !== IDENTIFY;
    const dropped = Number(this.#store.get(DROPPED)) || 0;
    if (this.#count >= this.#limit) {
      if (isEvent) this.#store.set(DROPPED, String(dropped + 1));
      return;
    }
    if (dropped && isEvent) {
      entry.body.droppedBefore = dropped;
      this.#store.remove(DROPPED);
    }
    this.#count += 1;
    const key = PREFIX + sortable(entry.at.wall) + sortable((this.#added += 1)) + "." + id;
    this.#store.set(key, toJson(entry));
  }

  /**
   * Returns the entries that may be sent now, oldest first: all of this client's entries, and those
   * that other clients left. While this client has entries, the others wait for the first answer,
   * which contains the server's time.
   */
  waiting(now: Moment): KeyedEntry[] {
    const keys = this.keys().sort();
    this.#count = keys.length;
    const entries: KeyedEntry[] = [];
    for (const key of keys) {
      try {
        entries.push({ ...(JSON.parse(this.#store.get(key) ?? "") as Entry), key });
      } catch {
        this.#store.remove(key); // A truncated entry can never be sent.
      }
    }
    const isOwn = ({ at }: Entry): boolean => at.client === now.client;
    if (now.offset === undefined && entries.some(isOwn)) return entries.filter(isOwn);
    return entries.filter(
      (entry) =>
        isOwn(entry) ||
        entry.isLeft ||
        Math.abs(now.wall - entry.at.wall) >= this.#adoptAfterMs,
    );
  }

  /** Let other pages send this client's entries now, except those just handed over. */
  leave(now: Moment, handedOver: KeyedEntry[]): void {
    const keys = new Set(handedOver.map(({ key }) => key));
    for (const { key, ...entry } of this.waiting(now)) {
      if (!keys.has(key)) this.#store.set(key, toJson({ ...entry, isLeft: true }));
    }
  }

  remove(entries: KeyedEntry[]): void {
    for (const { key } of entries) this.#store.remove(key);
    this.#count -= entries.length;
  }
}

/** Returns a number as a text of fixed length, so that texts sort like their numbers. */
function sortable(number: number): string {
  return number.toString(36).padStart(9, "0");
}
