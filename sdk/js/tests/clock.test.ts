import { beforeEach, expect, test, vi } from "vitest";
import { World } from "./fakes";

const DAY = 24 * 3_600_000;
let world: World;

beforeEach(() => {
  vi.useFakeTimers();
  world = new World();
});

/** The time of an event as the server stores it. */
function stored(index: number): number {
  return world.stored[index]!.at;
}

test("a clock that is always wrong is left to the server", async () => {
  world.offset = -DAY;
  const client = world.client();
  client.track("a");
  const at = world.wall + world.offset;
  world.pass(60_000);
  await client.flush();
  expect(stored(0)).toBe(at);
});

test("a clock that is set while an event waits does not move the event", async () => {
  const client = world.client();
  client.track("a");
  const at = world.wall;
  world.pass(10_000);
  world.wall += DAY;
  world.offset = -DAY;
  await client.flush();
  expect(stored(0)).toBe(at);
});

test("events of a visit with a wrong clock are right after the clock was set", async () => {
  world.offset = -DAY;
  const first = world.client();
  first.track("learns the server's time");
  await first.flush();
  world.answers = [{ status: 0 }];
  first.track("left behind");
  const at = world.wall + world.offset;
  await first.flush();
  world.monotonic = 0;
  world.wall += 60_000 - DAY;
  world.offset = 0;
  await world.client().flush();
  const last = world.sent.length - 1;
  expect(world.sent[last]).not.toHaveProperty("sentAt");
  expect(Math.abs(stored(last) - at)).toBeLessThan(1_000);
});

test("an event of before a sleep of the device keeps its time", async () => {
  const client = world.client();
  client.track("learns the server's time");
  await client.flush();
  world.answers = [{ status: 0 }];
  world.pass(10);
  client.track("a");
  const at = world.wall;
  await client.flush();
  world.wall += DAY; // The monotonic clock stood still.
  await client.flush();
  expect(stored(2)).toBe(at);
});

/** A visit whose clock is set by `set` ends with an event it could not send. Returns its time. */
async function leaveBehind(set: number): Promise<number> {
  const visit = world.client();
  visit.track("learns the server's time");
  await visit.flush();
  world.wall += set;
  world.offset = -set;
  world.answers = [{ status: 0 }];
  visit.track("left behind");
  const at = world.wall + world.offset;
  await visit.flush();
  world.pass(60_000);
  world.monotonic = 0;
  return at;
}

test("offline events keep their time when the clock is set and the tab dies", async () => {
  for (const set of [DAY, -DAY]) {
    world = new World();
    const at = await leaveBehind(set);
    const next = world.client();
    next.track("learns the server's time");
    await next.flush();
    expect(world.sent.at(-1)).toMatchObject({ name: "left behind" });
    expect(Math.abs(stored(world.sent.length - 1) - at)).toBeLessThan(1_000);
  }
});

test.each([[[DAY]], [[-DAY]], [[DAY, DAY]], [[DAY, -DAY]]])(
  "an event that is sent after %j has its time, though no answer showed the new clock",
  async (changes) => {
    const client = world.client();
    client.track("learns the server's time");
    await client.flush();
    const [first = 0, ...others] = changes;
    world.wall += first;
    world.offset -= first;
    client.track("a");
    const at = world.wall + world.offset;
    for (const change of others) {
      world.wall += change;
      world.offset -= change;
    }
    world.pass(10_000);
    await client.flush();
    expect(Math.abs(stored(world.sent.length - 1) - at)).toBeLessThan(1_000);
  },
);

test("the next visit sends what was left after the clock was set forward", async () => {
  const at = await leaveBehind(DAY);
  await world.client().flush();
  expect(Math.abs(stored(world.sent.length - 1) - at)).toBeLessThan(1_000);
});

test("an event is never sent as later than now", async () => {
  const first = world.client();
  first.track("a");
  world.wall -= DAY;
  world.monotonic = 0;
  await world.client().flush();
  const { timestamp, sentAt } = world.sent[0] as { timestamp: number; sentAt: number };
  expect(timestamp).toBeLessThanOrEqual(sentAt);
});

/** Sends an event at each of these times, in milliseconds after the start. */
async function send(client: ReturnType<World["client"]>, events: Record<string, number>) {
  const began = world.wall;
  for (const [name, at] of Object.entries(events)) {
    world.pass(Math.max(0, began + at - world.wall));
    client.track(name);
    await client.flush();
  }
}

test("the offset of the shortest round trip is kept", async () => {
  world.offset = -600_000;
  const client = world.client();
  world.transits = [8_000, 20, 4_000];
  await send(client, { a: 0, b: 60_000, c: 61_000, d: 120_000 });
  const offsets = world.sent.map(({ clockOffset }) => clockOffset);
  expect(offsets[1]).toBe(-596_000); // In the middle of the eight seconds.
  expect(offsets[3]).toBe(-599_990);
});

test("a right clock is not corrected, however long a request takes", async () => {
  const client = world.client();
  world.transits = [15_000, 15_000, 20];
  await send(client, { a: 0, b: 1, c: 2 });
  for (const item of world.sent.slice(1)) expect(item).not.toHaveProperty("clockOffset");
});

test("events of a page keep their order, whatever its clock and transits", async () => {
  let seed = 1;
  const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const errors = [0, 3_000, 4_990, 5_010, 12_000, 600_000, DAY];
  for (let round = 0; round < 600; round += 1) {
    world = new World();
    world.offset = errors[round % errors.length]! * (random() < 0.3 ? 1 : -1);
    const client = world.client();
    const times: number[] = [];
    let events = 0;
    for (let step = 0; step < 10; step += 1) {
      world.transits = [10 ** (1 + random() * 3.2)];
      const burst = round % 20 || step ? 2 : 150; // A request has at most 100 events.
      for (let n = 0; n < burst; n += 1) client.track(`event ${events++}`);
      world.pass(random() < 0.5 ? 0 : random() * 5_000);
      if (random() < 0.7) await client.flush();
      world.pass(random() * 2_000);
    }
    await client.flush();
    for (const { name, at } of world.stored) times[Number(`${name}`.slice(6))] ??= at;
    const gaps = times.slice(1).map((at, index) => at - times[index]!);
    expect(Math.min(...gaps), `round ${round}`).toBeGreaterThan(0);
  }
});
