/**
 * Times of events on a device whose clock may be wrong, and may be set while events wait.
 *
 * The server corrects a constant error: it compares `sentAt` with the time of receipt. This module
 * handles a clock that changes between the event and its sending.
 */
export interface TimeSource {
  /** The device's clock, in epoch milliseconds. */
  wall(): number;
  /** Milliseconds from any start; never set, unlike the device's clock. */
  monotonic(): number;
}

/** When something happened. `shift` is the wall clock minus the monotonic one. */
export interface Moment {
  wall: number;
  shift: number;
  /** Server time minus the device's clock, from the last answer. */
  offset?: number | undefined;
  /** How much `shift` had changed since that answer. Means nothing without one. */
  change?: number;
  /** The client that took the moment: monotonic clocks of two clients have different starts. */
  client: string;
}

/** A larger change of `shift` means that the clock was set, or that the device slept. */
const CHANGE_MS = 2_000;
/** The server accepts a clock that is wrong by up to this much. */
const TOLERANCE_MS = 5_000;

export class Clock {
  readonly #source: TimeSource;
  readonly #client: string;
  #offset: number | undefined;
  #offsetShift = 0;

  constructor(source: TimeSource, client: string) {
    this.#source = source;
    this.#client = client;
  }

  #shift(): number {
    return Math.round(this.#source.wall() - this.#source.monotonic());
  }

  now(): Moment {
    const shift = this.#shift();
    return {
      wall: this.#source.wall(),
      shift,
      offset: this.#offset,
      change: shift - this.#offsetShift,
      client: this.#client,
    };
  }

  monotonic(): number {
    return this.#source.monotonic();
  }

  /** Learn the server's time from the `Date` of an answer, which is cut to whole seconds. */
  learn(date?: string | null): void {
    const server = Date.parse(date ?? "") + 500;
    if (!server) return; // There was no date.
    const offset = server - this.#source.wall();
    this.#offset = Math.abs(offset) < TOLERANCE_MS ? 0 : offset;
    this.#offsetShift = this.#shift();
  }

  /**
   * The fields of an event that is sent now. A time in server time has no `sentAt`, so the server
   * takes it as it is.
   *
   * A clock that goes back was set. One that goes forward was set, or the device slept; it was set
   * if the event would be in the future otherwise. While no answer has shown the changed clock,
   * nobody knows what is the future: then the server compares with `sentAt`.
   */
  fields({ wall, shift, offset, change = 0, client }: Moment): {
    timestamp: number;
    sentAt?: number;
  } {
    const now = this.#source.wall();
    const isFuture = wall + (offset ?? 0) > now + (this.#offset ?? 0) + TOLERANCE_MS;
    const isUnknown = !isFuture && Math.abs(this.#shift() - this.#offsetShift) > CHANGE_MS;
    if (offset === undefined || (change > CHANGE_MS && isUnknown)) {
      const later = client === this.#client ? this.#shift() - shift : 0;
      const time = wall + (Math.abs(later) > CHANGE_MS ? later : 0);
      return { timestamp: Math.min(time, now), sentAt: now };
    }
    const wasSet = change < -CHANGE_MS || (change > CHANGE_MS && isFuture);
    return { timestamp: wall + offset - (wasSet ? change : 0) };
  }
}
