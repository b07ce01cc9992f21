-- One realistic event per request, each with an ID of its own. The prefix keeps the runs of one bench apart.
local prefix = os.getenv("BENCH_PREFIX")
local website = os.getenv("BENCH_WEBSITE")
local sent = 0
local plans = {"free", "pro", "team"}

wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("BENCH_KEY")

function request()
  sent = sent + 1
  local visitor = math.random(5000)
  local body = string.format(
    '{"websiteId":"%s","visitorId":"visitor-%d","userId":"user-%d","event":"checkout_started","eventId":"%s-%d",' ..
    '"externalSessionId":"session-%d","country":"DE","properties":{"attemptId":"attempt-%d","n":%d,"plan":"%s","amount":%d.5,' ..
    '"variant":"b","appVersion":"4.2.%d","retried":false}}',
    website, visitor, visitor, prefix, sent, visitor, sent, sent % 7, plans[sent % 3 + 1], sent % 500, sent % 10)
  return wrk.format("POST", "/api/v1/events", nil, body)
end

function response(status)
  if status ~= 202 then refused = (refused or 0) + 1 end
end

function setup(thread)
  thread:set("refused", 0)
  threads = threads or {}
  table.insert(threads, thread)
end

function done(summary, latency)
  local refused = 0
  for _, thread in ipairs(threads) do refused = refused + thread:get("refused") end
  io.write(string.format('{"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "refused": %d, "socket_errors": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000, refused,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
