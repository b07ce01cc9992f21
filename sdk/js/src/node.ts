/** Penstock for Node.js backends: server events with an API key. */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Clock, type Moment } from "./core/clock";
import { deviceTime, httpTransport, newId, reportSilence } from "./core/platform";
import { IDENTIFY, Queue, type Properties } from "./core/queue";
import { ADVICE, createSender, type Sender, type Transport } from "./core/sender";
import { memoryStore, type Store } from "./core/store";

export type { Json, Properties } from "./core/queue";

export interface Options {
  /** The URL of Penstock, such as `https://penstock.example`. */
  host: string;
  /** The ID of the website or app, shown on its page in the dashboard. */
  website: string;
  /** A key with the scope `ingest`. */
  apiKey: string;
  /** A folder that keeps events until the server answers, even if the process is killed. */
  spillTo?: string;
  /** Maximum number of waiting events. Further events are dropped and counted. Default: 10,000. */
  maxWaiting?: number;
  /**
   * Called with a message when the server rejects an event, accepts nothing or does not answer.
   * Default: `console.warn`.
   */
  onRefused?: (text: string) => void;
}

/** The person who caused an event. `userId` or `visitorId` is required. */
export interface Person {
  userId?: string;
  visitorId?: string;
}

export interface ServerEvent extends Person {
  event: string;
  /**
   * Your own ID for the event. Further events with this ID are duplicates. Default: a random ID.
   */
  eventId?: string;
  /** The time of the event. Default: now. */
  timestamp?: Date;
  properties?: Properties;
  /** Your own ID for the session, stored with the event. */
  externalSessionId?: string;
  country?: string;
  region?: string;
}

export interface ServerTransaction extends ServerEvent {
  transactionId?: string;
  amount?: number;
  currency?: string;
}

const SEND_AFTER_MS = 100;
/** Holds the time of the last event of all clients in this process. */
const LAST_TIME = memoryStore();

/** Keeps events until the server has acknowledged them. */
export class Penstock {
  readonly #website: string;
  readonly #clock = new Clock(deviceTime, newId());
  readonly #queue: Queue;
  readonly #sender: Sender;

  constructor(options: Options) {
    const { website, host, apiKey, spillTo, maxWaiting = 10_000, onRefused } = options;
    this.#website = website;
    this.#queue = new Queue(spillTo ? folderStore(spillTo) : memoryStore(), maxWaiting);
    const headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" };
    const report = onceAnHour(onRefused ?? ((text) => console.warn(`penstock: ${text}`)));
    const transport = explainWrongKeys(reportSilence(httpTransport(host, headers), report));
    this.#sender = createSender(this.#queue, this.#clock, transport, report);
    this.#sender.schedule(SEND_AFTER_MS);
  }

  track(event: ServerEvent): void {
    this.#add("/api/v1/events/batch", event);
  }

  transaction(event: ServerTransaction): void {
    this.#add("/api/v1/transactions", event);
  }

  /** Link a visitor to a user. */
  identify(userId: string, visitorId: string, traits?: Properties): void {
    this.#queueBody(IDENTIFY, { userId, visitorId, traits }, this.#clock.next(LAST_TIME));
  }

  /** Number of events that the server has not acknowledged yet. */
  get waiting(): number {
    return this.#queue.keys().length;
  }

  /** Send waiting events. Resolves when the server has acknowledged them or cannot be reached. */
  flush(): Promise<void> {
    return this.#sender.flush();
  }

  /** Send waiting events and stop. Call it before the process ends. */
  async close(): Promise<void> {
    await this.flush();
    this.#sender.stop();
  }

  #add(path: string, event: ServerTransaction): void {
    const id = event.eventId ?? event.transactionId ?? newId();
    const at = this.#clock.next(LAST_TIME);
    const timestamp = (event.timestamp ?? new Date(at.wall)).toISOString();
    const own = event.transactionId && !event.eventId ? {} : { eventId: id };
    this.#queueBody(path, { ...event, ...own, timestamp }, at);
  }

  #queueBody(path: string, body: Properties, at: Moment): void {
    this.#queue.add({ path, body: { websiteId: this.#website, ...body }, at }, newId());
    this.#sender.schedule(SEND_AFTER_MS);
  }
}

const HOUR_MS = 3_600_000;

/** Reports every rejected event. Reports a server that accepts nothing only once an hour. */
function onceAnHour(report: (text: string) => void): (text: string) => void {
  const toldAt = new Map<string, number>();
  return (text) => {
    const now = deviceTime.monotonic();
    if (text.endsWith(ADVICE)) {
      if (now - (toldAt.get(text) ?? -HOUR_MS) < HOUR_MS) return;
      toldAt.set(text, now);
    }
    try {
      report(text);
    } catch (error) {
      // A failing callback must not end the delivery.
      console.error("penstock: onRefused failed", error);
    }
  };
}

interface Problem {
  code?: unknown;
  detail?: string;
  message?: string;
}

interface Problems extends Problem {
  results?: ({ errors?: (Problem | null)[] } | null)[];
}

/** Returns an array in an answer; an empty array if a gateway's JSON has something else there. */
function list<T>(value: T[] | undefined): T[] {
  return Array.isArray(value) ? value : [];
}

/**
 * Turns the rejection of an event for a website that the key does not cover into a 403. The key may
 * still be changed.
 */
function explainWrongKeys(transport: Transport): Transport {
  return async (path, text) => {
    const answer = await transport(path, text);
    const body = (answer.body ?? {}) as Problems;
    const faults = [body, ...list(body.results).flatMap((result) => list(result?.errors))];
    const fault = faults.find((each) => String(each?.code).startsWith("website_not_o"));
    if (!fault) return answer;
    return { ...answer, status: 403, body: { detail: fault.detail ?? fault.message } };
  };
}

/**
 * Stores each key in a file. A file gets its final name once it is complete, so a killed process
 * never leaves half a file.
 */
function folderStore(folder: string): Store {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = (key: string): string => join(folder, key);
  return {
    keys: () =>
      readdirSync(folder).filter((name) => /^penstock\./.test(name) && !name.endsWith(".part")),
    get(key) {
      try {
        return readFileSync(path(key), "utf8");
      } catch {
        return null;
      }
    },
    set(key, value) {
      writeFileSync(`${path(key)}.part`, value, { mode: 0o600 });
      renameSync(`${path(key)}.part`, path(key));
    },
    remove: (key) => rmSync(path(key), { force: true }),
  };
}
