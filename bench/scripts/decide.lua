-- Asks for decisions on DEPENDENCIES names in turn, of CALLERS callers, ITEMS at
-- once, in the words of PEER; prints one line of JSON with what wrk measured.
local function setting(name, otherwise) return tonumber(os.getenv(name) or otherwise) end
local dependencies, callers, items = setting('DEPENDENCIES', 1), setting('CALLERS', 1), setting('ITEMS', 1)
local peer = os.getenv('PEER') or 'decider'

local function attempt(i)
  return string.format('{"dependency":"payments-%d","method":"GET","status":503,"attempt":1,"remaining_ms":8000,"caller":"checkout-%d"}',
    i % dependencies, i % callers)
end

local paths = { decider = '/v1/decide', batch = '/v1/decide/batch', ratelimit = '/json', gubernator = '/v1/GetRateLimits' }

local bodies = {
  decider = attempt,
  batch = function(i)
    local list = {}
    for n = 1, items do list[n] = attempt(i * items + n) end
    return '{"attempts":[' .. table.concat(list, ',') .. ']}'
  end,
  ratelimit = function(i)
    return string.format('{"domain":"bench","descriptors":[{"entries":[{"key":"dependency","value":"payments-%d"}]}]}', i % dependencies)
  end,
  gubernator = function(i)
    return string.format('{"requests":[{"name":"retries","unique_key":"payments-%d","hits":1,"limit":1000000000,"duration":60000}]}', i % dependencies)
  end,
}

function init()
  local several = math.max(dependencies, callers)
  if peer == 'batch' then several = math.max(math.floor(several / items), 1) end
  requests, at = {}, 0
  for i = 1, several do
    requests[i] = wrk.format('POST', paths[peer], { ['Content-Type'] = 'application/json' }, bodies[peer](i))
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format('RESULT {"seconds":%.6f,"requests":%d,"p50_us":%d,"p99_us":%d,"max_us":%d,"broken":%d,"refused":%d,"late":%d}\n',
    summary.duration / 1e6, summary.requests, latency:percentile(50), latency:percentile(99), latency.max,
    e.connect + e.read + e.write, e.status, e.timeout))
end
