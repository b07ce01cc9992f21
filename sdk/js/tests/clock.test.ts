import { beforeEach, expect, test, vi } from "vitest";
import { World } from "./fakes";

const DAY = 24 * 3_600_000;
let world: World;

beforeEach(() => {
  vi.useFakeTimers();
  world = new World();
});

/** The time that the server stores: it corrects by `sentAt`, as docs/events.md says. */
function stored(index: number, receivedAt = world.wall + world.offset): number {
  const { timestamp, sentAt } = world.sent[index] as { timestamp: number; sentAt?: number };
  const error = sentAt === undefined ? 0 : receivedAt - sentAt;
  return timestamp + (Math.abs(error) > 5_000 ? error : 0);
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
  world.answers = [{ status: 0, date: null }];
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
