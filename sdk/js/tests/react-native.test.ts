import { afterEach, expect, test, vi } from "vitest";
import { init, type AsyncStorage } from "../src/react-native";

const stored = new Map<string, string>();
const storage: AsyncStorage = {
  getAllKeys: () => Promise.resolve([...stored.keys()]),
  getItem: (key) => Promise.resolve(stored.get(key) ?? null),
  setItem: (key, value) => Promise.resolve(void stored.set(key, value)),
  removeItem: (key) => Promise.resolve(void stored.delete(key)),
};
const OPTIONS = { host: "https://penstock.example", website: "web_1", storage };

/** Answers every request; the names of the events that came. */
function serve(status: number): string[] {
  const names: string[] = [];
  vi.stubGlobal("fetch", (_: string, { body }: { body: string }) => {
    const { events } = JSON.parse(body) as { events: { name: string }[] };
    names.push(...events.map(({ name }) => name));
    return Promise.resolve(Response.json({ results: events.map(() => ({})) }, { status }));
  });
  return names;
}

function waiting(): number {
  return [...stored.keys()].filter((key) => key.startsWith("penstock.event.")).length;
}

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  stored.clear();
});

test.each([401, 403, 503])("the next run of an app sends what a %i has left", async (status) => {
  serve(status);
  const said = vi.spyOn(console, "warn").mockReturnValue();
  const first = await init(OPTIONS);
  const checkout = first.attempt("checkout", { property: "checkoutId", sequence: "n" });
  checkout.track("kept");
  const { visitorId } = first;
  await first.flush();
  await first.flush();
  expect(waiting()).toBe(1);
  expect(said).toHaveBeenCalledTimes(status === 503 ? 0 : 1);
  const names = serve(202);
  const next = await init(OPTIONS);
  await next.flush();
  expect(names).toEqual(["kept"]);
  expect(next.visitorId).toBe(visitorId);
  const again = next.attempt("checkout", { property: "checkoutId", sequence: "n" });
  expect([again.id, again.lastNumber]).toEqual([checkout.id, checkout.lastNumber]);
  await vi.waitFor(() => expect(waiting()).toBe(0));
});

test("events of one millisecond keep their order, also in the next run", async () => {
  serve(202);
  vi.spyOn(Date, "now").mockReturnValue(Date.parse("2026-05-01T10:00:00Z"));
  const first = await init(OPTIONS);
  for (const name of ["a", "b", "c"]) first.track(name);
  await first.flush();
  await vi.waitFor(() => expect(waiting()).toBe(0));
  const times: number[] = [];
  vi.stubGlobal("fetch", (_: string, { body }: { body: string }) => {
    const { events } = JSON.parse(body) as { events: { timestamp: number }[] };
    times.push(...events.map(({ timestamp }) => timestamp - Date.now()));
    return Promise.resolve(Response.json({ results: events.map(() => ({})) }));
  });
  const next = await init(OPTIONS);
  next.screen("Home");
  next.track("d");
  await next.flush();
  expect(times).toEqual([3, 4]);
});

test.each([true, false])(
  "a developer is warned once that no answer comes (debug: %s)",
  async (debug) => {
    vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Network request failed")));
    const said = vi.spyOn(console, "warn").mockReturnValue();
    const client = await init({ ...OPTIONS, debug });
    client.track("a");
    await client.flush();
    await client.flush();
    expect(said).toHaveBeenCalledTimes(debug ? 1 : 0);
  },
);

test("a storage that fails loses nothing while the app runs", async () => {
  const names = serve(202);
  const fail = () => Promise.reject(new Error("no storage"));
  const broken = { getAllKeys: fail, getItem: fail, setItem: fail, removeItem: fail };
  const client = await init({ ...OPTIONS, storage: broken });
  client.track("a");
  await client.flush();
  expect(names).toEqual(["a"]);
});
