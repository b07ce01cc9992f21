import { readFileSync } from "node:fs";
import { beforeEach, describe, expect, test } from "vitest";
import { actionOn, clipboardToken, referrerToken, type Evidence } from "../src/core/first-open";
import type { Answer } from "../src/core/sender";
import { resolveFirstOpen, type FirstOpenOptions, type FirstOpenStorage } from "../src/first-open";

interface Vectors {
  linkHosts: string[];
  referrers: { name: string; referrer: string; token: string | null }[];
  clipboards: { name: string; text: string; token: string | null }[];
  bodies: {
    name: string;
    app: { website: string; platform: "ios" | "android" } & Record<string, string>;
    evidence: Evidence;
    body: Record<string, unknown>;
  }[];
  answers: ({ name: string; action: string; destinationPath?: string | null } & Answer)[];
}

const file = new URL("../../vectors/deferred-links.json", import.meta.url);
const vectors = JSON.parse(readFileSync(file, "utf8")) as Vectors;
const matched = vectors.answers[0] as Answer;

describe("vectors", () => {
  test.each(vectors.referrers)("referrer: $name", ({ referrer, token }) => {
    expect(referrerToken(referrer) ?? null).toBe(token);
  });
  test.each(vectors.clipboards)("clipboard: $name", ({ text, token }) => {
    expect(clipboardToken(text, vectors.linkHosts) ?? null).toBe(token);
  });
  test.each(vectors.answers)("answer: $name", (answer) => {
    expect(actionOn(answer)).toBe(answer.action);
  });
  test.each(vectors.bodies)("body: $name", async ({ app, evidence, body }) => {
    const { installId, ...known } = app;
    const device = new Device({ ...known, ...adapters(evidence) });
    await device.resolve();
    expect({ ...device.bodies[0], installId }).toEqual(body);
  });
});

function adapters({ installReferrer, clipboard, url }: Evidence): Partial<FirstOpenOptions> {
  const adapter = (text: string | undefined) => () => Promise.resolve(text);
  return {
    installReferrer: adapter(installReferrer),
    clipboard: adapter(clipboard),
    initialUrl: adapter(url),
  };
}

/** A device with a storage, and a server whose answers a test sets; the last one is repeated. */
class Device {
  readonly stored = new Map<string, string>();
  readonly bodies: Record<string, unknown>[] = [];
  readonly pauses: number[] = [];
  answers: Answer[] = [matched];

  constructor(readonly options: Partial<FirstOpenOptions> = {}) {}

  /** As an app gets it at its start. */
  storage(): FirstOpenStorage {
    return {
      getItem: (key) => Promise.resolve(this.stored.get(key) ?? null),
      setItem: (key, value) => Promise.resolve(void this.stored.set(key, value)),
    };
  }

  resolve(options: Partial<FirstOpenOptions> = {}) {
    return resolveFirstOpen({
      host: "https://penstock.example",
      website: "web_1",
      platform: "ios",
      linkHosts: vectors.linkHosts,
      storage: this.storage(),
      transport: (_, body) => {
        this.bodies.push(JSON.parse(body) as Record<string, unknown>);
        return Promise.resolve(
          (this.answers.length > 1 ? this.answers.shift() : this.answers[0]) as Answer,
        );
      },
      pause: (ms) => {
        // Adapters answer at once in these tests; only retries are measured.
        if (this.bodies.length) this.pauses.push(ms);
        return new Promise((resolve) => setTimeout(resolve, this.bodies.length ? 0 : 20));
      },
      ...this.options,
      ...options,
    });
  }
}

let device: Device;
const copied = (): Promise<string> =>
  Promise.resolve("https://go.example.com/l/a?ct=Zb3v1o9xQ2mS8rT4uW6yAA");

beforeEach(() => {
  device = new Device();
});

test("the first open gets its destination, and later calls ask nothing", async () => {
  const first = await device.resolve({ clipboard: copied });
  expect(first).toMatchObject({ matched: true, destinationPath: "/offers/42?from=mail" });
  expect(await device.resolve({ clipboard: copied })).toBeUndefined();
  expect(device.bodies).toHaveLength(1);
});

test("it is tried until the server answers, with the same body, as late as it says", async () => {
  device.answers = [{ status: 0 }, { status: 429, retryAfter: "7" }, { status: 200 }, matched];
  expect(await device.resolve({ clipboard: copied })).toMatchObject({ matched: true });
  expect(device.pauses).toEqual([1_000, 7_000, 4_000]);
  expect(new Set(device.bodies.map((body) => JSON.stringify(body))).size).toBe(1);
});

test("it waits at most a day, and calls at once are one report", async () => {
  device.answers = [{ status: 503, retryAfter: "9999999" }, matched];
  const storage = device.storage();
  const calls = [device.resolve({ storage }), device.resolve({ storage })];
  const [first, second] = await Promise.all(calls);
  expect(first).toMatchObject({ matched: true });
  expect(second).toEqual(first);
  expect(device.pauses).toEqual([86_400_000]);
});

test("the next run continues a killed one, with the evidence of the first", async () => {
  device.answers = [{ status: 0 }];
  void device
    .resolve({ clipboard: copied, pause: () => new Promise(() => undefined) })
    .catch(() => undefined);
  await new Promise((resolve) => setTimeout(resolve, 50));
  device.answers = [matched];
  await device.resolve({ clipboard: () => Promise.resolve("changed since") });
  const [first, second] = device.bodies;
  expect(second).toEqual(first);
  expect(second?.clickToken).toBe("Zb3v1o9xQ2mS8rT4uW6yAA");
});

test("a body that the server refuses is not repeated in this run, but in the next", async () => {
  device.answers = [{ status: 422, body: {} }];
  expect(await device.resolve()).toBeUndefined();
  expect(device.bodies).toHaveLength(1);
  device.answers = [matched];
  expect(await device.resolve()).toMatchObject({ matched: true });
});

test("an adapter that fails or hangs has no evidence", async () => {
  const fails = (): Promise<string> => Promise.reject(new Error("denied"));
  await device.resolve({ clipboard: fails, initialUrl: () => new Promise(() => undefined) });
  expect(Object.keys(device.bodies[0] ?? {})).toEqual([
    "websiteId",
    "installId",
    "platform",
    "firstOpen",
  ]);
});

test("iOS reads no install referrer, Android no pasteboard", async () => {
  const read: string[] = [];
  const adapter = (name: string) => () => {
    read.push(name);
    return Promise.resolve(null);
  };
  const both = { clipboard: adapter("clipboard"), installReferrer: adapter("referrer") };
  await device.resolve({ ...both, platform: "android" });
  await new Device().resolve({ ...both, platform: "ios" });
  expect(read).toEqual(["referrer", "clipboard"]);
});
