import { beforeEach, expect, test, vi } from "vitest";
import { World } from "./fakes";

let world: World;

beforeEach(() => {
  vi.useFakeTimers();
  world = new World();
});

test("an event has an ID, its time and the visitor from the start", async () => {
  const client = world.client();
  client.track("signed_up", { plan: "pro" });
  world.pass(5_000);
  await client.flush();
  expect(world.requests).toEqual([
    {
      path: "/api/track",
      body: {
        events: [
          {
            type: "event",
            name: "signed_up",
            properties: { plan: "pro" },
            websiteId: "web_1",
            visitorId: client.visitorId,
            dedupeKey: expect.any(String),
            timestamp: world.wall - 5_000,
            sentAt: world.wall,
          },
        ],
      },
    },
  ]);
});

test("an event stays on the device until the server has acknowledged it", async () => {
  world.answers = [{ status: 0 }, { status: 503 }];
  const client = world.client();
  client.track("a");
  await client.flush();
  await client.flush();
  expect(world.waiting).toHaveLength(1);
  await client.flush();
  expect(world.waiting).toHaveLength(0);
  expect(new Set(world.sent.map((item) => item.dedupeKey)).size).toBe(1);
});

test("the next visit sends what the last one left", async () => {
  world.answers = [{ status: 0 }];
  const first = world.client();
  first.track("a");
  await first.flush();
  world.pass(60_000);
  await world.client().flush();
  expect(world.waiting).toHaveLength(0);
  expect(world.sent.map((item) => item.timestamp)).toEqual([
    world.wall - 60_000,
    world.wall - 60_000,
  ]);
});

test("another tab leaves fresh events to their own tab", async () => {
  world.client().track("a");
  await world.client().flush();
  expect(world.requests).toEqual([]);
});

test("retries wait longer each time, and as long as the server says", async () => {
  world.answers = [{ status: 429, retryAfter: "7" }, { status: 0 }];
  const client = world.client();
  client.track("a");
  await vi.advanceTimersByTimeAsync(300);
  expect(world.requests).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(6_900);
  expect(world.requests).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(200);
  expect(world.requests).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(2_100);
  expect(world.requests).toHaveLength(3);
  expect(world.waiting).toEqual([]);
});

test("the client waits at most a day, however long the server says", async () => {
  world.answers = [{ status: 503, retryAfter: "9999999" }];
  const client = world.client();
  client.track("a");
  await vi.advanceTimersByTimeAsync(86_400_000);
  expect(world.requests).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(world.waiting).toEqual([]);
});

test("more than 1,000 waiting events are dropped, and the next one tells how many", async () => {
  world.answers = [{ status: 0 }];
  const client = world.client();
  for (let n = 0; n < 1_003; n += 1) client.track(`e${n}`);
  client.identify("u-1"); // Dropped as well, but it is no event.
  expect(world.waiting).toHaveLength(1_000);
  await client.flush();
  await client.flush();
  client.identify("u-1");
  client.track("after");
  client.track("later");
  await client.flush();
  expect(world.sent.filter((item) => item.droppedBefore)).toMatchObject([
    { name: "after", droppedBefore: 3 },
  ]);
});

test("an item that is refused costs no other and is reported once", async () => {
  const errors = [{ field: "name", message: "At most 200 characters." }];
  world.answers = [{ body: { results: [{ errors }, { status: "accepted" }, { errors }] } }];
  const client = world.client();
  for (const name of ["x", "y", "x"]) client.track(name);
  await client.flush();
  expect(world.waiting).toEqual([]);
  expect(world.warnings).toEqual(["penstock: x was not stored. name: At most 200 characters."]);
});

test("a batch that is refused as a whole is halved until the item is alone", async () => {
  const client = world.client();
  for (const name of ["a", "b", "c"]) client.track(name);
  const refused = { status: 413, body: { code: "too_large", detail: "Too large." } };
  world.answers = [refused, refused, refused];
  await client.flush();
  expect(world.requests.map(({ body }) => body.events?.map((item) => item.name))).toEqual([
    ["a", "b", "c"],
    ["a", "b"],
    ["a"],
    ["b", "c"],
  ]);
  expect(world.warnings).toEqual(["penstock: a was not stored. body: Too large."]);
});

test("an identify call is sent alone, in its place", async () => {
  const client = world.client();
  client.track("a");
  client.identify("u-1", { plan: "pro" }, { userHash: "f00" });
  client.track("b");
  await client.flush();
  expect(world.requests.map(({ path }) => path)).toEqual([
    "/api/track",
    "/api/identify",
    "/api/track",
  ]);
  expect(world.requests[1]?.body).toEqual({
    websiteId: "web_1",
    visitorId: client.visitorId,
    userId: "u-1",
    traits: { plan: "pro" },
    userHash: "f00",
  });
});

test("a missing signature is reported without debug, other faults are not", async () => {
  const faults = (field: string) => ({
    status: 422,
    body: { code: "invalid", errors: [{ field, message: "No." }] },
  });
  const client = world.client({ debug: false });
  world.answers = [faults("userHash"), faults("traits")];
  client.identify("u-1");
  client.identify("u-2");
  await client.flush();
  expect(world.warnings).toEqual(["penstock: identify was not stored. userHash: No."]);
});

test("a transaction's ID makes a second one a duplicate", async () => {
  const client = world.client();
  client.transaction("purchase", { id: "o-1", amount: 9.5, currency: "EUR" });
  await client.flush();
  expect(world.sent).toMatchObject([
    {
      type: "transaction",
      dedupeKey: "o-1",
      properties: { amount: 9.5, currency: "EUR", transactionId: "o-1" },
    },
  ]);
});

test("reset forgets the visitor and its attempts, and sends what waits", async () => {
  const client = world.client();
  const { visitorId } = client;
  const checkout = client.attempt("checkout", { property: "checkoutId" });
  const { id } = checkout;
  client.track("a");
  client.reset();
  expect(client.visitorId).not.toBe(visitorId);
  expect(checkout.id).not.toBe(id);
  await client.flush();
  expect(world.sent).toMatchObject([{ visitorId }]);
});

test("before consent nothing is stored or sent; after it everything is", async () => {
  const client = world.client({ consent: "pending" });
  client.track("a");
  const { visitorId } = client;
  await client.flush();
  expect([world.store.keys(), world.requests]).toEqual([[], []]);
  client.consent("granted");
  await client.flush();
  expect(world.sent).toMatchObject([{ name: "a", visitorId }]);
  expect(client.visitorId).toBe(visitorId);
});

test("without consent everything is deleted and nothing is kept", async () => {
  world.answers = [{ status: 0 }];
  const client = world.client();
  client.track("a");
  await client.flush();
  client.consent("denied");
  client.track("b");
  await client.flush();
  expect(world.store.keys()).toEqual([]);
  expect(world.requests).toHaveLength(1);
});

test("a storage that refuses loses nothing while the page lives", async () => {
  const { withMemoryFallback } = await import("../src/core/store");
  const full = {
    ...world.store,
    set: () => {
      throw new Error("QuotaExceededError");
    },
  };
  Object.assign(world, { store: withMemoryFallback(full) });
  const client = world.client();
  client.track("a");
  await client.flush();
  expect(world.sent).toMatchObject([{ name: "a" }]);
  expect(world.waiting).toEqual([]);
});

test("an entry that cannot be read stops nothing", async () => {
  world.store.set("penstock.event.0000.x", '{"cut');
  const client = world.client();
  client.track("a");
  await client.flush();
  expect(world.sent).toMatchObject([{ name: "a" }]);
  expect(world.waiting).toEqual([]);
});

test("a page of a proxy is no answer: nothing is removed", async () => {
  const bodies = [{}, { results: [] }, { results: {} }, "a", null];
  world.answers = [
    { status: 200 },
    { status: 302 },
    ...bodies.map((body) => ({ status: 200, body })),
  ];
  const client = world.client();
  client.track("a");
  for (const _ of [...world.answers]) await client.flush();
  expect(world.waiting).toHaveLength(1);
  await client.flush();
  expect(world.waiting).toHaveLength(0);
});

const ADVICE = "Events wait. Check host, website, key and firewall.";

test.each([
  { status: 401, body: { code: "key_not_valid", detail: "The API key is not valid." } },
  { status: 403, body: { code: "forbidden", detail: "Not allowed." } },
  { status: 404 },
  { status: 405 },
  { status: 413 },
  { status: 413, body: { code: 413, detail: "Not of Penstock: its code is no text." } },
  { status: 422, body: { detail: "Not of Penstock: it has no code." } },
])("an answer that is not about an event keeps it: $status", async (answer) => {
  const refusals = Array(20).fill(answer);
  world.answers = [...refusals];
  const client = world.client({ debug: false });
  client.track("a");
  for (const _ of refusals) await client.flush();
  expect(world.waiting).toHaveLength(1);
  const text = `penstock: answer ${answer.status}. ${answer.body?.detail ?? ""} ${ADVICE}`;
  expect(world.warnings).toEqual([text]);
  await client.flush();
  expect(world.waiting).toHaveLength(0);
});

test("after a wrong key the client waits for long, and tries again by itself", async () => {
  world.answers = [{ status: 401 }, { status: 401 }];
  const client = world.client();
  client.track("a");
  await vi.advanceTimersByTimeAsync(300);
  client.track("b");
  await vi.advanceTimersByTimeAsync(29_000);
  expect(world.requests).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(121_000);
  expect(world.waiting).toEqual([]);
  expect(world.sent.map((item) => item.name)).toEqual(["a", "a", "b", "a", "b"]);
});

test("after a wrong key the next visit sends what waits", async () => {
  world.answers = [{ status: 401 }];
  const first = world.client();
  first.track("a");
  await first.flush();
  world.pass(60_000);
  await world.client().flush();
  expect(world.waiting).toHaveLength(0);
});

test("an event that a firewall refuses waits, and does not hold up the others", async () => {
  const client = world.client();
  world.isRefused = ({ name }) => name === "b";
  for (const name of ["a", "b", "c", "d"]) client.track(name);
  for (let n = 0; n < 5; n += 1) await client.flush();
  expect(world.waiting).toHaveLength(1);
  expect(world.warnings).toHaveLength(1);
  world.isRefused = () => false;
  await client.flush();
  expect(world.waiting).toEqual([]);
});

test("many events do not wait for one that a firewall refuses", async () => {
  const client = world.client();
  world.isRefused = ({ name }) => name === "e0";
  for (let n = 0; n < 300; n += 1) client.track(`e${n}`);
  await client.flush();
  await client.flush();
  expect(world.waiting).toHaveLength(1);
  expect(world.requests.length).toBeLessThan(20);
  world.requests.length = 0;
  for (let n = 300; n < 500; n += 1) client.track(`e${n}`);
  await client.flush();
  expect(world.waiting).toHaveLength(1);
  expect(world.requests.length).toBeLessThan(5);
});

test("a new event does not wait for those that a firewall refuses", async () => {
  const client = world.client();
  world.isRefused = ({ name }) => /^[xy]$/.test(name as string);
  for (const name of ["x", "y"]) client.track(name);
  for (let n = 0; n < 5; n += 1) await client.flush();
  client.track("new");
  await client.flush();
  expect(world.waiting).toHaveLength(2);
});

test("an event that a firewall refuses delays no new one, and is not tried with each", async () => {
  const client = world.client();
  world.isRefused = ({ name }) => name === "x";
  client.track("x");
  await vi.advanceTimersByTimeAsync(300);
  expect(world.requests).toHaveLength(1);
  for (let n = 0; n < 3; n += 1) {
    client.track("new");
    await vi.advanceTimersByTimeAsync(300);
    expect(world.waiting).toHaveLength(1);
  }
  expect(world.requests).toHaveLength(4);
  world.isRefused = () => false;
  world.pass(60_000);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(world.waiting).toEqual([]);
});

test("a firewall that refuses everything costs one request for each try", async () => {
  const client = world.client();
  world.isRefused = () => true;
  for (let n = 0; n < 100; n += 1) client.track(`e${n}`);
  await client.flush();
  expect(world.requests.length).toBeLessThan(10);
  world.requests.length = 0;
  for (let n = 0; n < 10; n += 1) await client.flush();
  expect(world.requests).toHaveLength(10);
  expect(world.waiting).toHaveLength(100);
});

test("an unknown website is reported without debug", async () => {
  const errors = [{ field: "websiteId", message: "There is no such website." }];
  world.answers = [{ body: { results: [{ errors }] } }];
  const client = world.client({ debug: false });
  client.track("a");
  await client.flush();
  expect(world.warnings).toEqual([
    "penstock: a was not stored. websiteId: There is no such website.",
  ]);
});

test("an attempt that cannot be read begins anew", async () => {
  world.store.set("penstock.attempt.checkout", '{"cut');
  expect(world.client().attempt("checkout", { property: "checkoutId" }).id).toMatch(/^id-/);
});
