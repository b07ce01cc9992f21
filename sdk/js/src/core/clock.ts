/**
 * Times of events on a device whose clock may be wrong and may be changed while events wait.
 *
 * The client measures the clock's error from the server's answers, and sends it as `clockOffset`.
 * Before the first answer it sends `sentAt`, from which the server estimates the error.
 */
import type { Store } from "./store";

export interface TimeSource {
  /** The device's clock, in epoch milliseconds. */
  wall(): number;
  /** Milliseconds since an arbitrary start. Unlike the device's clock, nobody can change it. */
  monotonic(): number;
}

/** The time of an event. `shift` is the wall clock minus the monotonic clock. */
export interface Moment {
  wall: number;
  shift: number;
  /** Server time minus the device's clock; undefined while unknown. */
  offset?: number | undefined;
  /** Change of `shift` since the answer that showed `offset`. Meaningless without an `offset`. */
  change?: number;
  /** The client that read the time. Each client's monotonic clock has a different start. */
  client: string;
}

/** A larger change of `shift` means that the clock was changed or that the device slept. */
const CHANGE_MS = 2_000;
/** The largest clock error that the server accepts. */
const TOLERANCE_MS = 5_000;
/** The longest time that a request may take. A clock that seems further behind is wrong. */
const LONGEST_TRANSIT_MS = 12 * 3_600_000;
/** The rate at which an estimate becomes less accurate, because clocks drift. */
const DRIFT = 1 / 1_000;
/** How far the times of events may run ahead of the clock. */
const AHEAD_MS = 1_000;
/** The key of the last event's time. */
const LAST = "penstock.last";

export class Clock {
  readonly #source: TimeSource;
  readonly #client: string;
  #offset: number | undefined;
  #offsetShift = 0;
  /** Round trip of the answer that showed the offset, and the time of that answer. */
  #roundTrip = 0;
  #learned = 0;
  /** The previous offset, for times up to `wall`. */
  #before = { wall: 0, offset: 0 };
  /** The last event that was sent with an offset. */
  #sent = { wall: 0, offset: 0 };

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

  /**
   * Returns the time of a new event: later than that of the last event with this store, so that
   * events of one millisecond keep their order. If the clock was set back, times start anew.
   */
  next(store: Store): Moment {
    const moment = this.now();
    const ahead = Number(store.get(LAST)) - moment.wall;
    if (ahead >= 0 && ahead <= AHEAD_MS) moment.wall += Math.min(ahead + 1, AHEAD_MS);
    store.set(LAST, `${moment.wall}`);
    return moment;
  }

  monotonic(): number {
    return this.#source.monotonic();
  }

  /**
   * Learn the offset from an answer. `sent`: the time when its request was sent. A shorter round
   * trip gives a better estimate.
   */
  learn(serverTime: unknown, sent: Moment): void {
    const server = Date.parse(`${serverTime}`);
    const { wall, shift } = this.now();
    const now = wall - shift;
    const roundTrip = now - (sent.wall - sent.shift);
    if (!server || Math.abs(shift - sent.shift) > CHANGE_MS) return;
    const isSameClock =
      this.#offset !== undefined && Math.abs(shift - this.#offsetShift) <= CHANGE_MS;
    if (isSameClock && roundTrip > this.#roundTrip + (now - this.#learned) * DRIFT) return;
    // The server's clock showed the answer's time at some instant since `sent`.
    const most = server - sent.wall;
    const least = server - wall;
    // The device's clock may be right.
    const isRight = most > -TOLERANCE_MS && least < TOLERANCE_MS;
    // The server has corrected the first events only if `sentAt` showed that their clock was wrong.
    const isCorrected = most < -TOLERANCE_MS || most > LONGEST_TRANSIT_MS;
    this.#before = isSameClock
      ? { wall, offset: this.#steady(wall) }
      : { wall: sent.wall + AHEAD_MS, offset: isCorrected ? most : 0 };
    this.#offset = isRight ? 0 : Math.round((least + most) / 2);
    this.#offsetShift = shift;
    this.#roundTrip = roundTrip;
    this.#learned = now;
  }

  /**
   * Returns the offset for a time. A better estimate takes effect slowly, so that times never go
   * back.
   */
  #steady(wall: number): number {
    const { wall: until, offset } = this.#before;
    return Math.max(this.#offset!, Math.round(offset - Math.max(0, wall - until) / 2));
  }

  /**
   * Returns the time fields of an event that is being sent.
   *
   * If the clock went back, it was changed. If it went forward, either it was changed or the device
   * slept; it must have been changed if the event would otherwise be in the future. Until an answer
   * shows the changed clock's error, the client cannot tell what is in the future, so the server
   * compares with `sentAt`.
   */
  fields({ wall, shift, offset, change = 0, client }: Moment): {
    timestamp: number;
    sentAt?: number;
    clockOffset?: number | undefined;
  } {
    const now = this.#source.wall();
    const isCurrent = client === this.#client && Math.abs(shift - this.#offsetShift) <= CHANGE_MS;
    if (isCurrent && this.#offset !== undefined) {
      const gap = wall - this.#sent.wall;
      const least = gap > 0 ? this.#sent.offset + 1 - gap : -Infinity;
      const clockOffset = Math.max(least, this.#steady(wall)) || undefined;
      this.#sent = { wall, offset: clockOffset ?? 0 };
      return { timestamp: wall, clockOffset };
    }
    const isFuture = wall + (offset ?? 0) > now + (this.#offset ?? 0) + TOLERANCE_MS;
    const isUnknown = !isFuture && Math.abs(this.#shift() - this.#offsetShift) > CHANGE_MS;
    if (offset === undefined || (change > CHANGE_MS && isUnknown)) {
      const later = client === this.#client ? this.#shift() - shift : 0;
      const time = wall + (Math.abs(later) > CHANGE_MS ? later : 0);
      return { timestamp: time > now + AHEAD_MS ? now : time, sentAt: now };
    }
    const wasSet = change < -CHANGE_MS || (change > CHANGE_MS && isFuture);
    return { timestamp: wall, clockOffset: offset - (wasSet ? change : 0) || undefined };
  }
}
