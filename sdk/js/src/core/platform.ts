/** Functions that browsers, apps and servers share. */
import type { TimeSource } from "./clock";
import { ADVICE, type Transport } from "./sender";

const TIMEOUT_MS = 20_000;

export const deviceTime: TimeSource = {
  wall: () => Date.now(),
  monotonic: () => performance.now(),
};

/** Matches the end of a host, where the path of a route goes. The host itself may have a path. */
export const HOST_END = /\/*$/;

/** Posts to Penstock. The default content type `text/plain` saves browsers a preflight request. */
export function httpTransport(host: string, headers: Record<string, string> = {}): Transport {
  return async (path, body) => {
    const aborter = new AbortController();
    const timer = setTimeout(() => aborter.abort(), TIMEOUT_MS);
    try {
      const answer = await fetch(host.replace(HOST_END, path), {
        method: "POST",
        headers,
        body,
        credentials: "omit",
        signal: aborter.signal,
      });
      return {
        status: answer.status,
        retryAfter: answer.headers.get("Retry-After"),
        body: await answer.json().catch(() => undefined),
      };
    } catch {
      return { status: 0 };
    } finally {
      clearTimeout(timer);
    }
  };
}

/** Reports missing answers on platforms whose console does not. */
export function reportSilence(transport: Transport, report: (text: string) => void): Transport {
  return async (path, body) => {
    const answer = await transport(path, body);
    if (!answer.status) report(`no answer. ${ADVICE}`);
    return answer;
  };
}

/**
 * Returns a new random ID. `randomUUID` exists only on https and local hosts, and not in all apps.
 * Pages may have replaced `Math.random`.
 */
export function newId(): string {
  const { crypto } = globalThis as { crypto?: Partial<Crypto> };
  const random = (): string => Math.random().toString(36).slice(2);
  return (
    crypto?.randomUUID?.() ??
    crypto?.getRandomValues?.(new Uint32Array(4)).join("") ??
    random() + random() + Date.now().toString(36) + performance.now()
  );
}
