import { beforeEach, expect, test, vi } from "vitest";
import { World } from "./fakes";

const OPTIONS = { property: "checkoutId", sequence: "n" };
let world: World;

beforeEach(() => {
  vi.useFakeTimers();
  world = new World();
});

function numbers(): number[] {
  return world.sent.map((item) => (item.properties as { n: number }).n);
}

test("events of an attempt share its ID, with rising numbers over tabs and reloads", async () => {
  const clients = [world.client(), world.client(), world.client()];
  for (let turn = 0; turn < 9; turn += 1) {
    clients[turn % 3]?.attempt("checkout", OPTIONS).track(`step ${turn}`, { turn });
    world.pass(1);
  }
  world.pass(60_000);
  await clients[0]?.flush();
  expect(world.sent).toHaveLength(9);
  expect(
    new Set(world.sent.map((item) => (item.properties as { checkoutId: string }).checkoutId)).size,
  ).toBe(1);
  const byTurn = [...world.sent].sort((a, b) => String(a.name).localeCompare(String(b.name)));
  const found = byTurn.map((item) => (item.properties as { n: number }).n);
  expect(found).toEqual([...new Set(found)].sort((a, b) => a - b));
});

test("two tabs that read the same last number use different next numbers", () => {
  const [a, b] = [world.client(), world.client()];
  Object.assign(b, { tab: (a.tab + 1) % 1_000 });
  const stale = world.store.get("penstock.attempt.checkout");
  a.attempt("checkout", OPTIONS).track("a");
  const first = a.attempt("checkout", OPTIONS).lastNumber;
  if (stale === null) world.store.remove("penstock.attempt.checkout");
  b.attempt("checkout", OPTIONS).track("b");
  expect(b.attempt("checkout", OPTIONS).lastNumber).not.toBe(first);
});

test("restart begins a new attempt; end leaves that to the next event", async () => {
  const client = world.client();
  const checkout = client.attempt("checkout", OPTIONS);
  const first = checkout.id;
  checkout.restart();
  const second = checkout.id;
  checkout.end();
  expect(new Set([first, second, checkout.id]).size).toBe(3);
});

test("a resumed attempt goes on after the number that came with it", async () => {
  const client = world.client();
  const checkout = client.attempt("checkout", OPTIONS);
  checkout.resume("c-9", 12_000);
  checkout.track("a");
  checkout.resume("c-9", 3);
  checkout.track("b");
  await client.flush();
  expect(world.sent.map((item) => item.properties)).toMatchObject([
    { checkoutId: "c-9" },
    { checkoutId: "c-9" },
  ]);
  expect(numbers()[0]).toBeGreaterThan(12_000);
  expect(numbers()[1]).toBeGreaterThan(numbers()[0] ?? Infinity);
});

test("a resumed attempt whose last number is unknown sends no numbers", async () => {
  const client = world.client();
  const checkout = client.attempt("checkout", OPTIONS);
  checkout.resume("c-9");
  checkout.track("a");
  await client.flush();
  expect(world.sent[0]?.properties).toEqual({ checkoutId: "c-9" });
});

test("a payment provider gets visitor and attempt", () => {
  const client = world.client({ visitorId: "v-1" });
  const checkout = client.attempt("checkout", OPTIONS);
  checkout.resume("c-9");
  expect(checkout.metadata()).toEqual({ visitorId: "v-1", checkoutId: "c-9" });
  expect(checkout.clientReferenceId()).toBe("penstock_di0xCmNoZWNrb3V0SWQKYy05");
  checkout.resume("c".repeat(200));
  expect(() => checkout.clientReferenceId()).toThrow(RangeError);
});
