/** Reports an app's first open, to find out which link led to the installation. */
import type { Properties } from "./queue";
import { pauseMs, type Answer, type Transport } from "./sender";

export const RESOLVE = "/api/mobile/deferred-links/resolve";

const TOKEN = /^[\w-]{16,64}$/;
const LINK = /^https:\/\/([^/?#@]+)\/l\/[a-z0-9-]{1,64}(?:\?([^#]*))?(?:#.*)?$/;
const MAX_CHARS = 2048;
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;

/** The evidence that an app has at its first open. */
export interface Evidence {
  /** Android: Google Play's install referrer. */
  installReferrer?: string | undefined;
  /** iOS: the text on the pasteboard. Only a click token in a link's URL leaves the device. */
  clipboard?: string | undefined;
  /** The URL with which the system opened the app. */
  url?: string | undefined;
}

/** The server's answer. */
export interface FirstOpen {
  matched: boolean;
  /** The place in the app to open; `null` if no link led to the app. */
  destinationPath: string | null;
  method: string | null;
  confidence: number | null;
  link: { id: string; slug: string } | null;
  utm: { source: string | null; medium: string | null; campaign: string | null } | null;
  clickedAt: string | null;
  visitorId: string;
  reason: string | null;
}

/** Returns the click token from parameters such as `ct=...&utm_source=...`. */
function tokenIn(parameters: string): string | undefined {
  const values = parameters.split("&").filter((part) => part.startsWith("ct="));
  return values
    .map((part) => part.slice(3))
    .filter((value) => TOKEN.test(value))
    .pop();
}

/** Returns the click token of an install referrer, which may still be percent-encoded. */
export function referrerToken(referrer: string): string | undefined {
  const text = referrer.slice(0, MAX_CHARS);
  return tokenIn(text) ?? tokenIn(text.replace(/%3D/gi, "=").replace(/%26/g, "&"));
}

/** Returns the parameters in the URL of one of our links; undefined for any other text. */
function linkParameters(text: string, linkHosts: readonly string[]): string | undefined {
  const [, host, parameters] = (text.length <= MAX_CHARS && LINK.exec(text.trim())) || [];
  return host && linkHosts.includes(host.toLowerCase()) ? (parameters ?? "") : undefined;
}

/** Returns the click token in the copied URL of one of our links. */
export function clipboardToken(text: string, linkHosts: readonly string[]): string | undefined {
  return tokenIn(linkParameters(text, linkHosts) ?? "");
}

/** Returns the evidence as fields of the request: tokens, and the URL if it is one of our links. */
export function evidenceFields(evidence: Evidence, linkHosts: readonly string[]): Properties {
  const { installReferrer = "", clipboard = "", url = "" } = evidence;
  const token = referrerToken(installReferrer);
  return {
    url: linkParameters(url, linkHosts) === undefined ? undefined : url.trim(),
    installReferrer: token && `ct=${token}`,
    clickToken: clipboardToken(clipboard, linkHosts),
  };
}

/** Returns the next action: finish, stop because the app made a mistake, or retry. */
export function actionOn({ status, body }: Answer): "finish" | "stop" | "retry" {
  if (status === 200 && typeof (body as Partial<FirstOpen> | null)?.matched === "boolean")
    return "finish";
  return status >= 400 && status < 500 && status !== 408 && status !== 429 ? "stop" : "retry";
}

/** Sends a body until the server answers. Returns undefined if the server rejects the body. */
export async function resolveOpen(
  body: string,
  transport: Transport,
  pause: (ms: number) => Promise<void>,
): Promise<FirstOpen | undefined> {
  for (let failures = 0; ; failures += 1) {
    const answer = await transport(RESOLVE, body);
    const action = actionOn(answer);
    if (action === "finish") return answer.body as FirstOpen;
    if (action === "stop") return undefined;
    const backoff = Math.min(FIRST_RETRY_MS * 2 ** failures, LAST_RETRY_MS);
    await pause(pauseMs(backoff, answer));
  }
}
