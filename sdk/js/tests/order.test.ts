import { beforeEach, expect, test, vi } from "vitest";
import type { Client } from "../src/core/client";
import { World } from "./fakes";

let world: World;
let began: number;

beforeEach(() => {
  vi.useFakeTimers();
  world = new World();
  began = world.wall;
});

/** Sends everything. Returns the times that the server stores, by name, since the test began. */
async function times(client: Client): Promise<Record<string, number>> {
  await client.flush();
  return Object.fromEntries(world.stored.map(({ name, at }) => [name, at - began]));
}

test("events of one millisecond have the order of their calls, also if sent at once", async () => {
  const client = world.client();
  for (const name of ["a", "b", "c"]) client.track(name);
  expect(await times(client)).toEqual({ a: 0, b: 1, c: 2 });
  client.track("d");
  world.pass(10);
  client.track("e");
  expect(await times(client)).toMatchObject({ d: 3, e: 10 });
});

test("an identify call keeps its place among events of one millisecond", async () => {
  const client = world.client();
  for (const name of ["a", "b", "c"]) client.track(name);
  client.identify("u-1");
  client.track("d");
  await client.flush();
  expect(world.requests.map(({ path }) => path)).toEqual([
    "/api/track",
    "/api/identify",
    "/api/track",
  ]);
});

test("the next page and other tabs continue after the times of this one", async () => {
  const first = world.client();
  for (const name of ["a", "b", "c"]) first.track(name);
  await first.flush();
  const [next, tab] = [world.client(), world.client()];
  next.track("d");
  tab.track("e");
  next.track("f");
  await tab.flush();
  expect(await times(next)).toEqual({ a: 0, b: 1, c: 2, d: 3, e: 4, f: 5 });
});

test("a burst runs at most a second ahead of the clock, and never back", async () => {
  const client = world.client();
  for (let n = 0; n < 1_500; n += 1) {
    client.track(`${n}`);
    if (n % 500 === 499) await client.flush();
  }
  const all = Object.values(await times(client));
  expect(all).toEqual(all.map((_, n) => Math.min(n, 1_000)));
  world.pass(300);
  client.track("later");
  expect(await times(client)).toMatchObject({ later: 1_001 });
});

test.each([
  [500, 1_001],
  [1_000, 1_000],
  [1_001, -1],
  [86_400_000, -86_399_000],
])("a clock that is set back by %i ms", async (ms, expected) => {
  const client = world.client();
  world.pass(1_000);
  client.track("a");
  await client.flush();
  world.wall -= ms;
  world.offset = began + 1_000 - world.wall;
  client.track("b");
  await client.flush();
  const { timestamp } = world.sent.at(-1) as { timestamp: number };
  expect(timestamp - began).toBe(expected);
});

test("a memory of the last time that cannot be read is no time", async () => {
  world.store.set("penstock.last", "never");
  const client = world.client();
  client.track("a");
  expect(await times(client)).toEqual({ a: 0 });
});
