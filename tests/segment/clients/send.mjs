// Sends the calls of a file with a Node.js client of Segment or RudderStack, as it is installed.
// Arguments: client, URL, write key, file. Each line of the file is a call.
import { setMaxListeners } from "node:events";
import { readFileSync } from "node:fs";

setMaxListeners(1_000); // The clients add one for each try, and a slow service takes many.

const [client, host, writeKey, file] = process.argv.slice(2);
const calls = readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line));

function fail(error) {
  console.error("not delivered:", error.message ?? error);
}

if (client === "segment") {
  const { Analytics } = await import("@segment/analytics-node");
  const analytics = new Analytics({ writeKey, host, flushAt: 10, flushInterval: 100 });
  analytics.on("error", (error) => fail(error.reason ?? error));
  for (const { type, ...call } of calls) analytics[type](call);
  await analytics.closeAndFlush();
} else {
  const { default: Analytics } = await import("@rudderstack/rudder-sdk-node");
  const analytics = new Analytics(writeKey, {
    dataPlaneUrl: host, flushAt: 10, flushInterval: 100, retryCount: 10, logLevel: "none",
  });
  const sent = calls.map(({ type, timestamp, ...call }) => {
    const message = { ...call, timestamp: new Date(timestamp) };
    return new Promise((resolve) =>
      analytics[type](message, (error) => resolve(error && fail(error))),
    );
  });
  analytics.flush();
  await Promise.all(sent);
  process.exit(0);
}
