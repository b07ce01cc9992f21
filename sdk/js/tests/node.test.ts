import { mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Properties } from "../src/core/queue";
import { Penstock } from "../src/node";

interface Received {
  url: string | undefined;
  key: string | undefined;
  body: Properties & { events?: Properties[] };
}

let server: Server;
let host: string;
let folder: string;
let isDown: boolean;
let refusal: { status: number; body: unknown } | undefined;
let reported: string[];
const received: Received[] = [];

beforeEach(async () => {
  received.length = 0;
  isDown = false;
  refusal = undefined;
  reported = [];
  folder = mkdtempSync(join(tmpdir(), "penstock-"));
  server = createServer((request, response) => {
    let text = "";
    request.on("data", (part) => (text += part));
    request.on("end", () => {
      if (isDown) return void request.socket.destroy();
      const body = JSON.parse(text) as Received["body"];
      received.push({ url: request.url, key: request.headers.authorization, body });
      const results = body.events?.map(() => ({ status: "accepted" }));
      response.writeHead(refusal?.status ?? 202, { "Content-Type": "application/json" });
      response.end(JSON.stringify(refusal?.body ?? (results ? { results } : { visitorId: "v-1" })));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  host = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(async () => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function client(maxWaiting = 10_000): Penstock {
  const onRefused = (text: string) => void reported.push(text);
  return new Penstock({
    host,
    website: "web_1",
    apiKey: "key",
    spillTo: folder,
    maxWaiting,
    onRefused,
  });
}

test("events go in batches, with the key, an ID and the time of the call", async () => {
  const penstock = client();
  const timestamp = new Date("2026-05-01T10:00:00Z");
  penstock.track({ event: "a", userId: "u-1", timestamp, properties: { plan: "pro" } });
  penstock.track({ event: "b", visitorId: "v-1", eventId: "mine" });
  await penstock.close();
  expect(received).toMatchObject([
    {
      url: "/api/v1/events/batch",
      key: "Bearer key",
      body: {
        events: [
          {
            websiteId: "web_1",
            event: "a",
            userId: "u-1",
            eventId: expect.any(String),
            timestamp: "2026-05-01T10:00:00.000Z",
            properties: { plan: "pro" },
          },
          { event: "b", visitorId: "v-1", eventId: "mine" },
        ],
      },
    },
  ]);
  expect(penstock.waiting).toBe(0);
});

test("events of one millisecond keep their order, and a given time changes no other", async () => {
  vi.spyOn(Date, "now").mockReturnValue(Date.parse("2026-05-01T10:00:00Z"));
  const penstock = client();
  const timestamp = new Date("2026-05-01T09:00:00Z");
  penstock.track({ event: "a", userId: "u-1" });
  penstock.track({ event: "b", userId: "u-1" });
  penstock.track({ event: "given", userId: "u-1", timestamp });
  penstock.transaction({ event: "c", userId: "u-1" });
  await penstock.close();
  const sent = received.flatMap(({ body }) => body.events ?? [body]);
  expect(sent.map(({ event, timestamp }) => [event, `${timestamp}`.slice(11)])).toEqual([
    ["a", "10:00:00.000Z"],
    ["b", "10:00:00.001Z"],
    ["given", "09:00:00.000Z"],
    ["c", "10:00:00.003Z"],
  ]);
});

test("transactions and identify calls have their own routes", async () => {
  const penstock = client();
  penstock.transaction({ event: "purchase", userId: "u-1", transactionId: "o-1", amount: 5 });
  penstock.identify("u-1", "v-1");
  await penstock.close();
  expect(received.map(({ url, body }) => [url, body])).toMatchObject([
    ["/api/v1/transactions", { transactionId: "o-1", amount: 5 }],
    ["/api/identify", { websiteId: "web_1", userId: "u-1", visitorId: "v-1" }],
  ]);
  expect(received[0]?.body).not.toHaveProperty("eventId");
});

test("what a dead process left in its folder is sent by the next one", async () => {
  isDown = true;
  const first = client();
  first.track({ event: "a", userId: "u-1" });
  await first.close();
  expect(readdirSync(folder)).toHaveLength(1);
  isDown = false;
  const next = client();
  await next.close();
  expect(received.flatMap(({ body }) => body.events)).toMatchObject([{ event: "a" }]);
  expect(readdirSync(folder)).toEqual([]);
});

test("events beyond the limit are dropped, and the next says how many, also later", async () => {
  isDown = true;
  const first = client(1);
  for (const event of ["a", "b", "c"]) first.track({ event, userId: "u-1" });
  first.identify("u-1", "v-1");
  await first.close();
  isDown = false;
  const next = client(1);
  await next.flush();
  for (const event of ["d", "e"]) {
    next.transaction({ event, userId: "u-1" });
    await next.flush();
  }
  await next.close();
  expect(received.map(({ url, body }) => [url, (body.events?.[0] ?? body).droppedBefore])).toEqual([
    ["/api/v1/events/batch", undefined],
    ["/api/v1/transactions", 2],
    ["/api/v1/transactions", undefined],
  ]);
});

const NOT_OWNED = "This workspace has no website with this ID. Check websiteId.";

test.each([
  { status: 401, body: { code: "key_not_valid", detail: "The API key is not valid." } },
  { status: 401, body: { code: "website_not_owned", detail: NOT_OWNED } },
  {
    status: 202,
    body: { results: [{ errors: [{ code: "website_not_owned", message: NOT_OWNED }] }] },
  },
  {
    status: 202,
    body: { results: [{ errors: [{ code: "website_not_of_key", message: "No." }] }] },
  },
])(
  "events wait for the right key, also over a restart, and the fault is reported",
  async (answer) => {
    refusal = answer;
    const first = client();
    first.track({ event: "a", userId: "u-1" });
    for (const _ of [1, 2, 3]) await first.flush();
    await first.close();
    expect(readdirSync(folder)).toHaveLength(1);
    expect(reported).toHaveLength(1);
    refusal = undefined;
    const next = client();
    await next.close();
    expect(readdirSync(folder)).toEqual([]);
  },
);

test.each([
  { status: 502, body: { code: 502, message: "Bad gateway" } },
  { status: 200, body: { code: null, results: "ok" } },
  { status: 200, body: { results: { errors: [] } } },
  { status: 200, body: { results: [] } },
  { status: 200, body: {} },
  { status: 413, body: { code: 413, errors: "too large" } },
  { status: 400, body: { code: { toString: 1 }, errors: [null] } },
])("JSON of a gateway stops and removes nothing", async (answer) => {
  refusal = answer;
  const penstock = client();
  penstock.track({ event: "a", userId: "u-1" });
  penstock.transaction({ event: "purchase", userId: "u-1" });
  await vi.waitFor(() => expect(received.length).toBeGreaterThan(0)); // The timer sent it.
  await penstock.flush();
  expect(penstock.waiting).toBe(2);
  refusal = undefined;
  await penstock.close();
  expect(penstock.waiting).toBe(0);
});

test("a server that does not answer is reported once, not for each event", async () => {
  isDown = true;
  const penstock = client();
  for (const event of ["a", "b"]) {
    penstock.track({ event, userId: "u-1" });
    await penstock.flush();
  }
  await penstock.close();
  expect(reported).toEqual(["no answer. Events wait. Check host, website, key and firewall."]);
});

test("results that are no objects are no faults of events", async () => {
  refusal = { status: 202, body: { results: [null] } };
  const penstock = client();
  penstock.track({ event: "a", userId: "u-1" });
  await penstock.close();
  expect([penstock.waiting, reported]).toEqual([0, []]);
});

test("an error of the program does not end the delivery", async () => {
  const said = vi.spyOn(console, "error").mockReturnValue();
  refusal = { status: 422, body: { code: "invalid", detail: "No." } };
  const onRefused = (): never => {
    throw new Error("of the program");
  };
  const penstock = new Penstock({ host, website: "web_1", apiKey: "key", onRefused });
  penstock.track({ event: "a", userId: "u-1" });
  await vi.waitFor(() => expect(penstock.waiting).toBe(0));
  await penstock.close();
  expect(said).toHaveBeenCalledOnce();
});

test("a folder that cannot be read for a while does not end the delivery", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const penstock = client();
  penstock.track({ event: "a", userId: "u-1" });
  renameSync(folder, `${folder}-gone`);
  await vi.advanceTimersByTimeAsync(1_000);
  renameSync(`${folder}-gone`, folder);
  await vi.advanceTimersByTimeAsync(60_000);
  vi.useRealTimers();
  await vi.waitFor(() => expect(penstock.waiting).toBe(0));
  await penstock.close();
});
