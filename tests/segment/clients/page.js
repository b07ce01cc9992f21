// Sends calls with a browser build of Segment or RudderStack, as it is installed: each visitor is
// a browser that is reset before it.
const argumentsOf = {
  track: (call) => [call.event, call.properties],
  page: (call) => ["Shop", call.name, call.properties],
  identify: (call) => [call.userId, call.traits],
};

async function segment(url, writeKey, calls) {
  const [analytics] = await AnalyticsNext.AnalyticsBrowser.load({ writeKey, cdnURL: url });
  let visitor;
  for (const call of calls) {
    if (call.anonymousId !== visitor) {
      analytics.reset();
      analytics.setAnonymousId((visitor = call.anonymousId));
    }
    await analytics[call.type](...argumentsOf[call.type](call), { timestamp: call.timestamp });
  }
}

async function rudderstack(url, writeKey, calls) {
  const analytics = new rudderanalytics.RudderAnalytics();
  analytics.load(writeKey, url, { configUrl: url });
  await new Promise((resolve) => analytics.ready(resolve));
  let visitor;
  for (const call of calls) {
    if (call.anonymousId !== visitor) {
      analytics.reset(true);
      analytics.setAnonymousId((visitor = call.anonymousId));
    }
    const options = { originalTimestamp: call.timestamp };
    analytics[call.type](...argumentsOf[call.type](call), options);
  }
}
