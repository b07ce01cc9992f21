import type { Clock } from "./clock";
import { toJson } from "./json";
import { TRACK, type KeyedEntry, type Properties, type Queue } from "./queue";

/** The part of an answer that a client needs. A `status` of 0 means that there was no answer. */
export interface Answer {
  status: number;
  retryAfter?: string | null;
  /** The parsed body, if it was JSON. */
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

/**
 * The results of a batch, the answer to one entry, or a problem document. A gateway's JSON may
 * contain anything in these fields, but only Penstock's `code` is a string.
 */
interface Body {
  results?: ItemResult[];
  visitorId?: string | null;
  code?: unknown;
  detail?: string;
  errors?: Fault[];
  serverTime?: unknown;
}

/** Routes that accept several entries at once. Other routes get one entry per request. */
const BATCH_ROUTE = /track$|batch$/;
const MAX_ITEMS = 100;
const MAX_CHARS = 50_000;
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;
const MANY_FAILURES = 9;
const DAY_MS = 86_400_000;
/** The end of the message that the server accepts nothing. */
export const ADVICE = "Events wait. Check host, website, key and firewall.";
/** Statuses that a single event may have caused. Halving the batch finds that event. */
const ABOUT_EVENTS = [400, 403, 413, 422];

/** Returns how long to wait before a retry: at least as long as the server says, up to a day. */
export function pauseMs(backoff: number, { retryAfter }: Answer): number {
  const stated = Number(retryAfter) * 1_000 || 0; // The header may be a date instead.
  // A timer of many days would fire immediately.
  return Math.min(Math.max(backoff, stated), DAY_MS);
}

/** Sends the queue's entries repeatedly until the server has acknowledged them. */
export interface Sender {
  /** Send after a delay, but not before the server's `Retry-After`. */
  schedule(delayMs: number): void;
  stop(): void;
  /** The device is online again, so try the server now. */
  wake(): void;
  /** Send all entries. Resolves once all are acknowledged, or at the first failure. */
  flush(): Promise<void>;
  /**
   * Hand over as many entries as fit while the page closes. Removes none, because there will be no
   * answer.
   */
  leave(beacon: (body: string) => boolean): void;
}

export function createSender(
  queue: Queue,
  clock: Clock,
  transport: Transport,
  report: (text: string) => void,
): Sender {
  let running: Promise<void> | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let failures = 0;
  let notBefore = 0;
  let maxItems = MAX_ITEMS;
  let isStopped = false;
  /** Keys of events that a firewall may reject because of their content. Other events go first. */
  const barred = new Set<string>();
  /** The time at which to retry them, unless `flush` does so earlier. */
  let barredUntil = 0;

  function schedule(delayMs: number): void {
    if (isStopped) return;
    clearTimeout(timer);
    timer = setTimeout(run, Math.max(delayMs, notBefore - clock.monotonic()));
  }

  function run(): Promise<void> {
    running ??= sendAll()
      .catch(() => schedule(LAST_RETRY_MS)) // A failure must not end the program.
      .finally(() => (running = undefined));
    return running;
  }

  async function sendAll(): Promise<void> {
    const batch = nextBatch();
    if (!batch[0]) {
      if (queue.keys()[0]) schedule(LAST_RETRY_MS); // The entry may not be sent yet.
      return;
    }
    const wait = await send(batch);
    if (!wait) return sendAll();
    notBefore = clock.monotonic() + wait;
    schedule(0);
  }

  /** Returns the first entries of the queue that fit into one request. */
  function nextBatch(): KeyedEntry[] {
    const all = isStopped ? [] : queue.waiting(clock.now());
    const others = all.filter(({ key }) => !barred.has(key));
    const waiting = others[0] || clock.monotonic() < barredUntil ? others : all;
    const path = waiting[0]?.path ?? "";
    const limit = BATCH_ROUTE.test(path) ? maxItems : 1;
    const batch: KeyedEntry[] = [];
    let chars = 0;
    for (const entry of waiting.slice(0, limit)) {
      chars += toJson(entry).length;
      if (entry.path !== path || (batch[0] && chars > MAX_CHARS)) break;
      batch.push(entry);
    }
    return batch;
  }

  function bodyOf(path: string, batch: KeyedEntry[]): string {
    const events = batch.map(({ body, at }): Properties =>
      path === TRACK ? { ...body, ...clock.fields(at) } : body,
    );
    return toJson(BATCH_ROUTE.test(path) ? { events } : events[0]);
  }

  /**
   * Sends a batch. Returns the milliseconds until the next attempt; 0 if the server has
   * acknowledged the entries.
   */
  async function send(batch: KeyedEntry[]): Promise<number> {
    const { path, key } = batch[0]!;
    const sent = clock.now();
    const answer = await transport(path, bodyOf(path, batch));
    const { status } = answer;
    const body = (answer.body ?? {}) as Body;
    const isAccepted = (body.results?.length ?? Number("visitorId" in body)) === batch.length;
    const isAboutEvents = ABOUT_EVENTS.includes(status);
    clock.learn(body.serverTime, sent);
    if (isAboutEvents && batch.length > 1) {
      maxItems = Math.ceil(batch.length / 2);
      return 0;
    }
    // Only Penstock's own answers remove events. A proxy's page or a wrong key must not.
    const isRefused = isAboutEvents && status !== 403 && typeof body.code === "string";
    if (isRefused || (isAccepted && status < 300)) {
      failures = 0;
      maxItems = MAX_ITEMS;
      queue.remove(batch);
      reportFaults(body, batch);
      return 0;
    }
    if (/^4(?!08|29)/.test(`${status}`)) {
      report(`answer ${status}. ${body.detail ?? ""} ${ADVICE}`);
      if (isAboutEvents) {
        const isAlone = barred.has(key) || !failures++;
        barred.add(key);
        barredUntil = clock.monotonic() + LAST_RETRY_MS;
        if (isAlone) return 0; // Other entries have to wait only after several failures in a row.
      } else failures = MANY_FAILURES;
    }
    const backoff = Math.min(FIRST_RETRY_MS * 2 ** failures++, LAST_RETRY_MS);
    return pauseMs(backoff * (0.5 + Math.random() / 2), answer);
  }

  function reportFaults({ results, errors, detail }: Body, batch: KeyedEntry[]): void {
    const ofOne: ItemResult = { errors: errors ?? (detail ? [{ message: detail }] : []) };
    (results ?? [ofOne]).forEach(({ errors }, index) => {
      const { name, event, type } = batch[index]?.body ?? {};
      for (const { field, message } of errors ?? []) {
        const what = name ?? event ?? type ?? "identify";
        report(`${what} was not stored. ${field ?? "body"}: ${message}`);
      }
    });
  }

  return {
    schedule,
    flush() {
      barredUntil = 0;
      return run();
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
    wake() {
      failures = 0;
      schedule(0);
    },
    leave(beacon) {
      const batch = nextBatch();
      const isSent = batch[0]?.path === TRACK && beacon(bodyOf(TRACK, batch));
      queue.leave(clock.now(), isSent ? batch : []);
    },
  };
}
