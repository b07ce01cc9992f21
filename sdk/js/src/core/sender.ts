import type { Clock } from "./clock";
import { TRACK, type KeyedEntry, type Properties, type Queue } from "./queue";

/** What a client needs of an answer. `status` 0 stands for no answer. */
export interface Answer {
  status: number;
  retryAfter?: string | null;
  date?: string | null;
  /** The parsed body, where it was JSON. */
  body?: unknown;
}

export type Transport = (path: string, body: string) => Promise<Answer>;

interface Fault {
  field?: string;
  message?: string | undefined;
}

interface ItemResult {
  errors?: Fault[];
}

/** Routes that take several entries at once. Entries of other routes are sent one by one. */
const BATCH_ROUTES: Record<string, string | undefined> = {
  [TRACK]: TRACK,
  "/api/v1/events": "/api/v1/events/batch",
};
const MAX_ITEMS = 100;
const MAX_CHARS = 50_000;
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;

/** Sends what waits in the queue, again and again until the server has acknowledged it. */
export class Sender {
  readonly #queue: Queue;
  readonly #clock: Clock;
  readonly #transport: Transport;
  readonly #report: (text: string) => void;
  #running: Promise<void> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #notBefore = 0;
  #maxItems = MAX_ITEMS;
  #isStopped = false;

  constructor(
    queue: Queue,
    clock: Clock,
    transport: Transport,
    report: (text: string) => void,
  ) {
    this.#queue = queue;
    this.#clock = clock;
    this.#transport = transport;
    this.#report = report;
  }

  /** Send after a delay, or when the server's `Retry-After` is over. */
  schedule(delayMs: number): void {
    if (this.#isStopped) return;
    clearTimeout(this.#timer);
    const wait = Math.max(delayMs, this.#notBefore - this.#clock.monotonic());
    this.#timer = setTimeout(() => void this.flush(), wait);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  /** The server can be tried at once: the device is online again. */
  wake(): void {
    this.#failures = 0;
    this.schedule(0);
  }

  /** Send everything that waits. Ends when all is answered for, or at the first failure. */
  flush(): Promise<void> {
    this.#running ??= this.#sendAll().finally(() => (this.#running = undefined));
    return this.#running;
  }

  async #sendAll(): Promise<void> {
    while (!this.#isStopped) {
      const batch = this.#nextBatch();
      if (!batch.length) return;
      const wait = await this.#send(batch);
      if (wait > 0) {
        this.#notBefore = this.#clock.monotonic() + wait;
        this.schedule(wait);
        return;
      }
    }
  }

  /** The first entries of the queue that fit into one request. */
  #nextBatch(): KeyedEntry[] {
    const waiting = this.#queue.waiting(this.#clock.now());
    const path = waiting[0]?.path ?? "";
    const limit = BATCH_ROUTES[path] ? this.#maxItems : 1;
    let chars = 0;
    let size = 0;
    for (const entry of waiting) {
      chars += JSON.stringify(entry.body).length + 60;
      if (size === limit || entry.path !== path || (size && chars > MAX_CHARS)) break;
      size += 1;
    }
    return waiting.slice(0, size);
  }

  #body(batch: KeyedEntry[]): string {
    const items = batch.map(({ path, body, at }): Properties =>
      path === TRACK ? { ...body, ...this.#clock.fields(at) } : body,
    );
    return JSON.stringify(BATCH_ROUTES[batch[0]?.path ?? ""] ? { events: items } : items[0]);
  }

  /** What can be handed over while the page goes. Nothing is removed: there is no answer. */
  lastBatch(): string | undefined {
    const batch = this.#nextBatch();
    return batch[0]?.path === TRACK ? this.#body(batch) : undefined;
  }

  /** Milliseconds until the next try; 0 if the server has answered for the entries. */
  async #send(batch: KeyedEntry[]): Promise<number> {
    const path = batch[0]?.path ?? "";
    const answer = await this.#transport(BATCH_ROUTES[path] ?? path, this.#body(batch));
    const { status } = answer;
    this.#clock.learn(answer.date ?? null);
    // A page of a proxy is no answer of Penstock, whatever its status.
    const isOurs = status >= 400 || answer.body;
    if (!isOurs || status >= 500 || status === 408 || status === 429) return this.#retryIn(answer);
    this.#failures = 0;
    if (status >= 300 && batch.length > 1) {
      this.#maxItems = Math.ceil(batch.length / 2); // One of them spoils the request: find it.
      return 0;
    }
    this.#maxItems = MAX_ITEMS;
    this.#reportFaults(answer, batch);
    this.#queue.remove(batch);
    return 0;
  }

  #retryIn({ retryAfter }: Answer): number {
    const backoff = Math.min(FIRST_RETRY_MS * 2 ** this.#failures++, LAST_RETRY_MS);
    const seconds = Number(retryAfter) || 0; // It may be a date.
    return Math.max(backoff * (0.5 + Math.random() / 2), seconds * 1_000);
  }

  #reportFaults({ status, body }: Answer, batch: KeyedEntry[]): void {
    const problem = (body ?? {}) as { results?: ItemResult[]; errors?: Fault[]; detail?: string };
    const single = status < 300 ? [] : [{ errors: problem.errors ?? [{ message: problem.detail }] }];
    (problem.results ?? single).forEach(({ errors }: ItemResult, index) => {
      const { name, event, type } = batch[index]?.body ?? {};
      for (const { field, message } of errors ?? []) {
        const what = name ?? event ?? type ?? "identify";
        this.#report(`${what} was not stored. ${field ?? "body"}: ${message ?? status}`);
      }
    });
  }
}
