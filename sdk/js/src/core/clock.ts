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
  /** Server time minus the device's clock, where an answer has told it. */
  offset?: number;
  /** The client that took the moment: monotonic clocks of two clients have different starts. */
  client: string;
}

/** A shift larger than this means that the clock was set, or that the device slept. */
const SET_MS = 2_000;
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
    return this.#source.wall() - this.#source.monotonic();
  }

  #knownOffset(): number | undefined {
    return Math.abs(this.#shift() - this.#offsetShift) < SET_MS ? this.#offset : undefined;
  }

  now(): Moment {
    const offset = this.#knownOffset();
    return {
      wall: this.#source.wall(),
      shift: this.#shift(),
      client: this.#client,
      ...(offset !== undefined && { offset }),
    };
  }

  monotonic(): number {
    return this.#source.monotonic();
  }

  /** Learn the server's time from the `Date` of an answer, which is cut to whole seconds. */
  learn(date: string | null): void {
    const server = Date.parse(date ?? "") + 500;
    if (Number.isNaN(server)) return;
    const offset = server - this.#source.wall();
    this.#offset = Math.abs(offset) < TOLERANCE_MS ? 0 : offset;
    this.#offsetShift = this.#shift();
  }

  /**
   * The fields of an event that is sent now. A time in server time has no `sentAt`, so the server
   * takes it as it is.
   */
  fields(moment: Moment): { timestamp: number; sentAt?: number } {
    if (moment.offset !== undefined) return { timestamp: Math.round(moment.wall + moment.offset) };
    const change = moment.client === this.#client ? this.#shift() - moment.shift : 0;
    const wasSet = Math.abs(change) > SET_MS;
    return {
      timestamp: Math.round(moment.wall + (wasSet ? change : 0)),
      sentAt: Math.round(this.#source.wall()),
    };
  }
}
