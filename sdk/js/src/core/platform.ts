/** What browsers, apps and servers share of their surroundings. */
import type { TimeSource } from "./clock";
import type { Transport } from "./sender";

const TIMEOUT_MS = 20_000;

export const deviceTime: TimeSource = {
  wall: () => Date.now(),
  monotonic: () => performance.now(),
};

/** Posts to a Penstock. `text/plain`, the default, saves browsers a preflight request. */
export function httpTransport(host: string, headers: Record<string, string> = {}): Transport {
  const base = host.replace(/\/+$/, "");
  return async (path, body) => {
    const aborter = new AbortController();
    const timer = setTimeout(() => aborter.abort(), TIMEOUT_MS);
    try {
      const answer = await fetch(base + path, {
        method: "POST",
        headers,
        body,
        credentials: "omit",
        signal: aborter.signal,
      });
      return {
        status: answer.status,
        retryAfter: answer.headers.get("Retry-After"),
        date: answer.headers.get("Date"),
        body: await answer.json().catch(() => undefined),
      };
    } catch {
      return { status: 0 };
    } finally {
      clearTimeout(timer);
    }
  };
}

/** A new random ID. `randomUUID` exists on https and local hosts only, and not in all apps. */
export function newId(): string {
  const { crypto } = globalThis as { crypto?: Crypto };
  const random = (): string => Math.random().toString(36).slice(2);
  return crypto?.randomUUID?.() ?? random() + random() + random();
}
