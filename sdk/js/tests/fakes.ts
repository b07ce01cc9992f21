import { Client, type CommonOptions } from "../src/core/client";
import type { Properties } from "../src/core/queue";
import type { Answer } from "../src/core/sender";
import { memoryStore, type Store } from "../src/core/store";

export interface Request {
  path: string;
  body: { events?: Properties[] } & Properties;
}

/** A device and a server whose clocks and answers a test sets. */
export class World {
  readonly store: Store = memoryStore();
  readonly requests: Request[] = [];
  readonly warnings: string[] = [];
  wall = Date.parse("2026-05-01T10:00:00Z");
  monotonic = 0;
  /** Server time minus the device's clock. */
  offset = 0;
  /** How long the next requests take to arrive, in milliseconds; later ones take no time. */
  transits: number[] = [];
  /** What the server would store, with its times. */
  readonly stored: { name: unknown; at: number }[] = [];
  #ahead: number | undefined;
  /** The next answers; after them, everything is accepted. */
  answers: Partial<Answer>[] = [];
  /** Whether a firewall answers a request with this item, without a word of Penstock. */
  isRefused: (item: Properties) => boolean = () => false;
  #ids = 0;

  client(options: Partial<CommonOptions> = {}): Client {
    return new Client(
      { website: "web_1", debug: true, ...options },
      {
        store: this.store,
        adoptAfterMs: 30_000,
        time: { wall: () => Math.floor(this.wall), monotonic: () => this.monotonic },
        transport: (path, body) => Promise.resolve(this.#answer(path, body)),
        newId: () => `id-${(this.#ids += 1)}`,
        context: () => ({}),
        warn: (text) => this.warnings.push(text),
      },
    );
  }

  /** Time passes, on both clocks. */
  pass(ms: number): void {
    this.wall += ms;
    this.monotonic += ms;
  }

  #answer(path: string, text: string): Answer {
    const body = JSON.parse(text) as Request["body"];
    this.requests.push({ path, body });
    if ((body.events ?? [body]).some(this.isRefused)) return { status: 403 };
    this.pass(this.transits.shift() ?? 0);
    for (const item of body.events ?? [body]) {
      this.stored.push({ name: item.name, at: this.#storedAt(item) });
    }
    const serverTime = new Date(this.wall + this.offset).toISOString();
    const results = body.events?.map(() => ({ status: "accepted" }));
    const accepted = results ? { results } : { visitorId: body.visitorId };
    const given = this.answers.shift() ?? {};
    const taken = { status: 202, body: { serverTime, ...accepted } };
    return "status" in given ? { status: 0, ...given } : { ...taken, ...given };
  }

  /** The time that the server stores: see `events/device_clock.py`. */
  #storedAt({ timestamp, sentAt, clockOffset }: Properties): number {
    if (typeof clockOffset === "number") {
      this.#ahead = Math.abs(clockOffset) > 5_000 ? -clockOffset : undefined;
      return Number(timestamp) + clockOffset;
    }
    if (sentAt === undefined) return Number(timestamp);
    const ahead = Number(sentAt) - (this.wall + this.offset);
    if (this.#ahead === undefined || ahead > this.#ahead + 60_000)
      this.#ahead = ahead > 5_000 || ahead < -12 * 3_600_000 ? ahead : undefined;
    return Number(timestamp) - (this.#ahead ?? 0);
  }

  get sent(): Properties[] {
    return this.requests.flatMap(({ body }) => body.events ?? [body]);
  }

  get waiting(): string[] {
    return this.store.keys().filter((key) => key.startsWith("penstock.event."));
  }
}
