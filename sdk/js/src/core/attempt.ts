import { toJson } from "./json";
import type { Properties } from "./queue";
import type { Store } from "./store";

export interface AttemptOptions {
  /** The property that holds the attempt's ID: the funnel's `attemptProperty`. */
  property: string;
  /** The property that holds the event's number: the funnel's `sequenceProperty`. */
  sequence?: string;
}

/** The part of a client that an attempt needs. */
export interface AttemptHost {
  readonly store: Store;
  readonly visitorId: string;
  readonly tab: number;
  newId(): string;
  plain(properties?: Properties): Properties | undefined;
  track(name: string, properties: Properties): void;
}

interface State {
  id: string;
  /** The last number; undefined if the attempt began elsewhere and its last number is unknown. */
  last?: number | undefined;
}

/**
 * One journey, such as a checkout. All tabs and visits share its ID and numbers until it ends.
 *
 * Numbers increase by thousands and end in the tab's three digits, so that two tabs use different
 * numbers at the same instant. One pair of tabs in a thousand has the same digits.
 */
export class Attempt {
  readonly #host: AttemptHost;
  readonly #key: string;
  readonly #options: AttemptOptions;

  constructor(host: AttemptHost, name: string, options: AttemptOptions) {
    this.#host = host;
    this.#key = `penstock.attempt.${name}`;
    this.#options = options;
    this.track = this.track.bind(this);
  }

  #state(): State {
    try {
      return JSON.parse(this.#host.store.get(this.#key) ?? "") as State;
    } catch {
      return this.#begin(this.#host.newId(), 0); // The attempt does not exist or cannot be read.
    }
  }

  #begin(id: string, last?: number): State {
    const state = { id, last };
    this.#host.store.set(this.#key, toJson(state));
    return state;
  }

  /** The attempt's ID. Begins an attempt if necessary. */
  get id(): string {
    return this.#state().id;
  }

  /** The number of the last event; undefined if unknown, see `resume`. */
  get lastNumber(): number | undefined {
    return this.#state().last;
  }

  /** Send an event of this attempt, with its ID and the next number. */
  track(name: string, properties?: Properties): void {
    const { property, sequence } = this.#options;
    const { id, last } = this.#state();
    const own: Properties = { ...this.#host.plain(properties), [property]: id };
    if (sequence && last !== undefined) {
      const next = last - (last % 1_000) + 1_000 + this.#host.tab;
      this.#begin(id, next);
      own[sequence] = next;
    }
    this.#host.track(name, own);
  }

  /**
   * Continue an attempt that began elsewhere, with an ID from a link or the backend. Without the
   * number of its last event, its further events have no numbers, and only their times show the
   * order.
   */
  resume(id: string, lastNumber?: number): void {
    const { id: knownId, last } = this.#state();
    const isOther = knownId !== id || last === undefined;
    this.#begin(id, isOther ? lastNumber : Math.max(last, lastNumber ?? 0));
  }

  /** Begin a new attempt and forget the current one. */
  restart(): void {
    this.#begin(this.#host.newId(), 0);
  }

  /** Forget the attempt. The next event begins a new one. */
  end(): void {
    this.#host.store.remove(this.#key);
  }

  /** Metadata for a payment provider, so that its webhooks contain the visitor and the attempt. */
  metadata(): Record<string, string> {
    return { visitorId: this.#host.visitorId, [this.#options.property]: this.id };
  }

  /**
   * The visitor and the attempt as a `client_reference_id` for Stripe: at most 200 letters, digits,
   * dashes and underscores. Throws RangeError if the IDs are too long.
   */
  clientReferenceId(): string {
    const parts = [this.#host.visitorId, this.#options.property, this.id];
    const bytes = new TextEncoder().encode(parts.join("\n"));
    const base64 = btoa(String.fromCharCode(...bytes)).replace(/=/g, "");
    const text = `penstock_${base64.replace(/\+/g, "-").replace(/\//g, "_")}`;
    if (text.length > 200) throw new RangeError("IDs too long for Stripe");
    return text;
  }
}
