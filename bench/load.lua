-- Sends realistic events with unique IDs. BENCH_FORM: single, batch, track or tracks. BENCH_ITEMS: events per batch.
-- BENCH_PREFIX: start of the IDs, different in each run of a benchmark.
local prefix = os.getenv("BENCH_PREFIX")
local website = os.getenv("BENCH_WEBSITE")
local form = os.getenv("BENCH_FORM")
local items = tonumber(os.getenv("BENCH_ITEMS"))
local sent = 0
local plans = {"free", "pro", "team"}

wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local paths = {single = "/api/v1/events", batch = "/api/v1/events/batch", track = "/api/track", tracks = "/api/track"}
if form == "track" or form == "tracks" then
  wrk.headers["User-Agent"] = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " ..
    "Chrome/137.0.0.0 Safari/537.36"
  wrk.headers["Origin"] = "https://shop.example.com"
else
  wrk.headers["Authorization"] = "Bearer " .. os.getenv("BENCH_KEY")
end

local function server_event()
  local visitor = math.random(5000)
  return string.format(
    '{"websiteId":"%s","visitorId":"visitor-%d","userId":"user-%d","event":"checkout_started","eventId":"%s-%d",' ..
    '"externalSessionId":"session-%d","country":"DE","properties":{"attemptId":"attempt-%d","n":%d,"plan":"%s","amount":%d.5,' ..
    '"variant":"b","appVersion":"4.2.%d","retried":false}}',
    website, visitor, visitor, prefix, sent, visitor, sent, sent % 7, plans[sent % 3 + 1], sent % 500, sent % 10)
end

local function tracked_item()
  local visitor = math.random(5000)
  return string.format(
    '{"websiteId":"%s","visitorId":"visitor-%d","type":"event","name":"checkout_started","dedupeKey":"%s-%d",' ..
    '"sessionId":"session-%d","url":"https://shop.example.com/checkout?utm_source=mail","properties":{"attemptId":"attempt-%d",' ..
    '"n":%d,"plan":"%s","amount":%d.5,"variant":"b","appVersion":"4.2.%d","retried":false}}',
    website, visitor, prefix, sent, visitor, sent, sent % 7, plans[sent % 3 + 1], sent % 500, sent % 10)
end

function request()
  local item = (form == "track" or form == "tracks") and tracked_item or server_event
  if items == 1 then
    sent = sent + 1
    return wrk.format("POST", paths[form], nil, item())
  end
  local texts = {}
  for number = 1, items do
    sent = sent + 1
    texts[number] = item()
  end
  return wrk.format("POST", paths[form], nil, '{"events":[' .. table.concat(texts, ",") .. "]}")
end

function response(status)
  if status ~= 202 then
    refused = (refused or 0) + 1
    refused_with = status
  end
end

function setup(thread)
  thread:set("refused", 0)
  thread:set("refused_with", 0)
  threads = threads or {}
  table.insert(threads, thread)
end

function done(summary, latency)
  local refused, refused_with = 0, 0
  for _, thread in ipairs(threads) do
    refused = refused + thread:get("refused")
    refused_with = math.max(refused_with, thread:get("refused_with"))
  end
  io.write(string.format('{"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "refused": %d, "refused_with": %d, "socket_errors": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000, refused, refused_with,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
