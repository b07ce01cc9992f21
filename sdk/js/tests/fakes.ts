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
        time: { wall: () => this.wall, monotonic: () => this.monotonic },
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
    const date = new Date(this.wall + this.offset).toUTCString();
    const results = body.events?.map(() => ({ status: "accepted" }));
    const accepted = results ? { results } : { visitorId: body.visitorId };
    const given = this.answers.shift() ?? {};
    return { status: 202, date, ...("status" in given ? {} : { body: accepted }), ...given };
  }

  get sent(): Properties[] {
    return this.requests.flatMap(({ body }) => body.events ?? [body]);
  }

  get waiting(): string[] {
    return this.store.keys().filter((key) => key.startsWith("penstock.event."));
  }
}
