/** `resolveFirstOpen` for React Native, once per install, with adapters to the app's modules. */
import { evidenceFields, resolveOpen, type Evidence, type FirstOpen } from "./core/first-open";
import { httpTransport, newId } from "./core/platform";
import type { Transport } from "./core/sender";

/** Reads one piece of evidence. A failure, or no result within 3 seconds, counts as no evidence. */
export type Adapter = () => Promise<string | null | undefined>;

export interface FirstOpenStorage {
  getItem(key: string): Promise<string | null>;
  setItem(key: string, value: string): Promise<void>;
}

export interface FirstOpenOptions {
  /** The URL of Penstock, such as `https://penstock.example`. */
  host: string;
  /** The ID of the app, shown on its page in the dashboard. */
  website: string;
  platform: "ios" | "android";
  /** Hosts of links, such as `["go.example.com"]`. Other hosts' URLs never leave the device. */
  linkHosts: readonly string[];
  storage: FirstOpenStorage;
  /** Android: reads Google Play's install referrer. */
  installReferrer?: Adapter;
  /** iOS: reads the pasteboard. */
  clipboard?: Adapter;
  /** The URL that opened the app, such as `Linking.getInitialURL`. */
  initialUrl?: Adapter;
  /** The visitor's ID if the app already tracks visitors: `penstock.visitorId`. */
  visitorId?: string;
  osVersion?: string;
  appVersion?: string;
  /** For tests. */
  transport?: Transport;
  pause?: (ms: number) => Promise<void>;
}

const BODY = "penstock.firstOpen.body";
const DONE = "penstock.firstOpen.done";
const ADAPTER_MS = 3_000;

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Unfinished calls, by the storage that remembers the install. */
const running = new WeakMap<FirstOpenStorage, Promise<FirstOpen | undefined>>();

/**
 * Reports the first open and returns the server's answer, once per install. Later calls return
 * undefined; concurrent calls share one result. Retries until the server answers, even in later
 * runs of the app.
 */
export function resolveFirstOpen(options: FirstOpenOptions): Promise<FirstOpen | undefined> {
  const { storage } = options;
  const answer =
    running.get(storage) ?? resolveOnce(options).finally(() => running.delete(storage));
  running.set(storage, answer);
  return answer;
}

async function resolveOnce(options: FirstOpenOptions): Promise<FirstOpen | undefined> {
  const { storage, pause = wait } = options;
  const transport =
    options.transport ?? httpTransport(options.host, { "Content-Type": "application/json" });
  if (await storage.getItem(DONE)) return undefined;
  let body = await storage.getItem(BODY);
  if (!body) {
    body = JSON.stringify(await firstOpenBody(options, pause));
    // Store the body before sending it, so that a retry sends the same body.
    await storage.setItem(BODY, body);
  }
  const answer = await resolveOpen(body, transport, pause);
  if (answer) await storage.setItem(DONE, "1");
  return answer;
}

async function firstOpenBody(
  options: FirstOpenOptions,
  pause: (ms: number) => Promise<void>,
): Promise<object> {
  const { website, platform, linkHosts, visitorId, osVersion, appVersion } = options;
  const read = async (adapter: Adapter | undefined): Promise<string | undefined> => {
    const text =
      adapter &&
      Promise.resolve()
        .then(adapter)
        .catch(() => undefined);
    return (await Promise.race([text, pause(ADAPTER_MS)])) ?? undefined;
  };
  const evidence: Evidence = {
    installReferrer: platform === "android" ? await read(options.installReferrer) : undefined,
    clipboard: platform === "ios" ? await read(options.clipboard) : undefined,
    url: await read(options.initialUrl),
  };
  const known = { websiteId: website, installId: newId(), platform, firstOpen: true };
  return { ...known, visitorId, osVersion, appVersion, ...evidenceFields(evidence, linkHosts) };
}
