-- The fleet's state of one dependency in Redis: the arithmetic of bucket.go,
-- breaker.go and caller.go once more, and nothing else. Names are the same.
--
-- KEYS[1]  the bucket, a hash; the others hold decision_ids and report_ids
-- ARGV     the clock in ms ('' for Redis TIME), the rule, then the operations
--
-- Every number is an integer below 2^53, which a double holds exactly, and is
-- written with %.0f: Lua's own text form keeps fourteen digits.

local floor, max, min = math.floor, math.max, math.min

local RULE = 18  -- numbers of the rule, the clock among them
local WIDTH = 15 -- arguments of an operation
local FAIL_OVER, QUIET, IDS_LIVE, REPORTS_LIVE = 10000, 60000, 60000, 600000
local TTL_MARGIN, LONGEST_TTL, NO_REFILL_TTL = 10000, 31622400000, 86400000
local MAX_CAPACITY, MAX_FLOW, MAX_MILLIS = 1000000000000, 4000000000000000, 9007199254740991
local MAX_CALLERS, THE_REST, FORGOTTEN = 100, '*', 600000
local MAX_SLOTS, MAX_SLOT_COUNT = 20, 100000000
local FEW_RETRIES, POOR_YIELD, MAX_YIELD, MAX_EXTRA = 20000, 400, 1000000000000, 9
local OFF, CLOSED, OPEN, HALF_OPEN = 0, 1, 2, 3
local GRANTED, PAUSED, OPEN_BREAKER, COOL_DOWN_TOO_LONG, NO_TOKENS = 0, 1, 2, 3, 4
local NONE, PAUSE, ALLOW = 0, 1, 2

local function text(n) return string.format('%.0f', n) end
local function number(i) return tonumber(ARGV[i]) end

local rule = {
  capacity = number(2), capacity_millis = number(3), nano_per_second = number(4), ratio = number(5),
  caller_share = number(6), unit = number(7), budget_off = ARGV[8] == '1', deposit_on_request = ARGV[9] == '1',
  breaker = ARGV[10] == '1', failure_ratio = number(11), min_attempts = number(12), window = number(13),
  open_for = number(14), probes = number(15), cool_down_off = ARGV[16] == '1', longest_wait = number(17),
  ratio_max = number(18),
}

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
end

-- ------------------------------------------------------------------ the hash

local b = {}                 -- the bucket
local callers, known = {}, 0 -- by name, and how many
local changed = {}           -- callers to write; false: to delete

local function load()
  local flat = redis.call('HGETALL', KEYS[1])
  if #flat == 0 then return end
  local h = {}
  for i = 1, #flat, 2 do
    local name = string.match(flat[i], '^caller:(.*)$')
    if name then
      local share, cool_down, seen = string.match(flat[i + 1], '^(%d+),(%-?%d+),(%-?%d+)$')
      callers[name] = { share = tonumber(share), cool_down = tonumber(cool_down), seen = tonumber(seen) }
      known = known + 1
    else
      h[flat[i]] = flat[i + 1]
    end
  end
  b.exists = true
  for _, name in ipairs({ 'at', 'rest', 'tokens', 'flow', 'flow_at', 'reported', 'cool_down', 'open_until',
                          'override', 'override_until', 'override_since', 'won', 'lost', 'extra', 'slot', 'slot_us' }) do
    b[name] = tonumber(h[name] or '0')
  end
  b.probed = h.probed == '1'
  b.override_author, b.override_words = h.override_author or '', h.override_words or ''
  b.window, b.leases = {}, {}
  for start, failures, successes in string.gmatch(h.window or '', '(%-?%d+):(%d+):(%d+)') do
    b.window[#b.window + 1] = { start = tonumber(start), failures = tonumber(failures), successes = tonumber(successes) }
  end
  for lease in string.gmatch(h.leases or '', '%-?%d+') do
    b.leases[#b.leases + 1] = tonumber(lease)
  end
end

local function save(ttl)
  local slots, leases = {}, {}
  for i, s in ipairs(b.window) do slots[i] = text(s.start) .. ':' .. text(s.failures) .. ':' .. text(s.successes) end
  for i, l in ipairs(b.leases) do leases[i] = text(l) end
  local args = {
    'at', text(b.at), 'rest', text(b.rest), 'tokens', text(b.tokens), 'flow', text(b.flow), 'flow_at', text(b.flow_at),
    'reported', text(b.reported), 'cool_down', text(b.cool_down), 'open_until', text(b.open_until),
    'probed', b.probed and '1' or '0', 'window', table.concat(slots, ','), 'leases', table.concat(leases, ','),
    'override', text(b.override), 'override_until', text(b.override_until), 'override_since', text(b.override_since),
    'won', text(b.won), 'lost', text(b.lost), 'extra', text(b.extra), 'slot', text(b.slot), 'slot_us', text(b.slot_us),
    'override_author', b.override_author, 'override_words', b.override_words,
  }
  local gone = {}
  for name, c in pairs(changed) do
    if c then
      args[#args + 1] = 'caller:' .. name
      args[#args + 1] = text(c.share) .. ',' .. text(c.cool_down) .. ',' .. text(c.seen)
    else
      gone[#gone + 1] = 'caller:' .. name
    end
  end
  redis.call('HSET', KEYS[1], unpack(args))
  if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
  redis.call('PEXPIRE', KEYS[1], text(ttl))
end

-- ----------------------------------------------------------------- bucket.go

local function capacity()
  if rule.capacity_millis == 0 then return rule.capacity end
  local rate, grown = floor(b.flow / 10), MAX_CAPACITY
  if rate <= floor(MAX_CAPACITY * 1000 / rule.capacity_millis) then
    grown = min(grown, floor(rate * rule.capacity_millis / 1000))
  end
  return max(rule.capacity, grown)
end

local function shift(ms)
  b.at = b.at + ms
  b.flow_at = floor(b.at / 1000)
  b.reported = b.reported + ms
  b.cool_down = b.cool_down + ms
  b.override_until = b.override_until + ms
  b.slot = b.slot + ms
  for _, s in ipairs(b.window) do s.start = s.start + ms end
  for i, l in ipairs(b.leases) do b.leases[i] = l + ms end
  if b.open_until ~= 0 then b.open_until = max(b.open_until + ms, 1) end
  for name, c in pairs(callers) do
    c.cool_down, c.seen = c.cool_down + ms, c.seen + ms
    changed[name] = c
  end
end

local function faded(v) return v - floor((v + 9) / 10) end

local function fade(second)
  local n = second - b.flow_at
  while n > 0 and (b.flow > 0 or b.won > 0 or b.lost > 0) do
    b.flow, b.won, b.lost = faded(b.flow), faded(b.won), faded(b.lost)
    n = n - 1
  end
  b.flow_at = max(b.flow_at, second)
end

local function time_to_full(missing)
  if rule.nano_per_second == 0 then return 0 end
  local micro = floor(rule.nano_per_second / 1000)
  if micro == 0 then return LONGEST_TTL end
  return floor(missing * 1000 / micro) + 1
end

local function credit(t)
  local missing, elapsed = capacity() - b.tokens, t - b.at
  b.at = t
  if missing <= 0 then
    b.tokens, b.rest = b.tokens + missing, 0
    return
  end
  elapsed = min(elapsed, LONGEST_TTL, time_to_full(missing))
  local micro, nano = floor(rule.nano_per_second / 1000), rule.nano_per_second % 1000
  local whole = elapsed * micro
  local parts = whole % 1000 * 1000 + elapsed * nano + b.rest
  local gain = floor(whole / 1000) + floor(parts / 1000000)
  b.rest = parts % 1000000
  if gain >= missing then gain, b.rest = missing, 0 end
  b.tokens = b.tokens + gain
end

-- ------------------------------------------------------- yield.go and pace.go

local function yield_share()
  local total = b.won + b.lost
  if total < FEW_RETRIES then return 0 end
  return min(max((floor(b.won * 1000 / total) - POOR_YIELD) * 5, 0), 1000)
end

local function extra_capacity()
  if rule.ratio_max <= rule.ratio then return 0 end
  local times = MAX_EXTRA
  if rule.ratio > 0 then times = min(max(floor((rule.ratio_max - rule.ratio) / rule.ratio), 1), MAX_EXTRA) end
  return floor(capacity() * (times * yield_share()) / 1000)
end

local function deposit_extra(calls)
  if rule.ratio_max <= rule.ratio then return end
  local gain = min(calls * floor((rule.ratio_max - rule.ratio) * yield_share() / 1000), MAX_FLOW)
  b.extra = min(b.extra + gain, extra_capacity())
end

local function spend_extra(cost, plain)
  if not plain or rule.ratio_max == 0 or b.extra < cost then return false end
  b.extra = b.extra - cost
  return true
end

-- slot_wait is in how many ms the next slot of a paced fleet begins
local function slot_wait(t)
  return max(b.slot - t + (b.slot_us > 0 and 1 or 0), 0)
end

local function take_slot(t, wait, gap)
  if wait == 0 then b.slot, b.slot_us = t, 0 end
  local us = b.slot_us + gap
  b.slot, b.slot_us = b.slot + floor(us / 1000), us % 1000
end

-- ------------------------------------------------------------ bucket.go again

local function clear_override()
  b.override, b.override_until, b.override_since, b.override_author, b.override_words = NONE, 0, 0, '', ''
end

local function touch()
  if not b.exists then
    b = { exists = true, at = now, rest = 0, tokens = rule.capacity, flow = 0, flow_at = floor(now / 1000), reported = now,
          cool_down = 0, open_until = 0, probed = false, window = {}, leases = {}, won = 0, lost = 0, extra = 0, slot = 0, slot_us = 0 }
    clear_override()
  elseif now < b.at - FAIL_OVER then
    shift(now - b.at)
  end
  local t = max(now, b.at)
  fade(floor(t / 1000))
  credit(t)
  b.extra = min(b.extra, extra_capacity())
  if b.override ~= NONE and b.override_until <= t then clear_override() end
  return t
end

local function deposit(calls)
  local gain = min(calls * rule.ratio, MAX_FLOW)
  b.flow = min(b.flow + gain, MAX_FLOW)
  b.tokens = b.tokens + gain
  local full = capacity()
  if b.tokens >= full then b.tokens, b.rest = full, 0 end
  deposit_extra(calls)
end

local function time_for(missing)
  local nano = rule.nano_per_second
  if nano >= 1000000000000 then
    local micro = floor(nano / 1000)
    return min(floor((missing * 1000 + micro - 1) / micro), MAX_MILLIS)
  end
  local quotient, left = floor(missing / nano), missing % nano
  for _ = 1, 2 do
    if quotient > floor(MAX_MILLIS / 1000) - 1 then return MAX_MILLIS end
    quotient = quotient * 1000 + floor(left * 1000 / nano)
    left = left * 1000 % nano
  end
  if left > 0 then quotient = quotient + 1 end
  return min(quotient, MAX_MILLIS)
end

-- ----------------------------------------------------------------- caller.go

local function forget(t)
  for name, c in pairs(callers) do
    if name ~= THE_REST and c.cool_down <= t and c.seen <= t - FORGOTTEN then
      callers[name], changed[name], known = nil, false, known - 1
    end
  end
end

local function caller(t, name)
  if not callers[name] and known >= MAX_CALLERS then
    forget(t)
    if known >= MAX_CALLERS then name = THE_REST end
  end
  local c = callers[name]
  if not c then
    c = { share = rule.unit, cool_down = 0 }
    callers[name], known = c, known + 1
  end
  c.seen, changed[name] = t, c
  return c
end

local function earn(t, name, calls)
  if rule.caller_share == 0 then return end
  local c = caller(t, name)
  c.share = min(c.share + calls * rule.caller_share, 2 * rule.unit)
end

-- ---------------------------------------------------------------- breaker.go

local function state(t)
  if not rule.breaker then return OFF end
  if b.open_until == 0 then return CLOSED end
  if t < b.open_until then return OPEN end
  return HALF_OPEN
end

local function end_leases(t)
  while b.leases[1] and b.leases[1] <= t do table.remove(b.leases, 1) end
end

local function wait(t)
  local s = state(t)
  if s == OPEN then return b.open_until - t end
  if s == HALF_OPEN then
    end_leases(t)
    if #b.leases >= rule.probes then return b.leases[1] - t end
  end
  return 0
end

local function has_probe(t)
  if state(t) ~= HALF_OPEN then return false end
  end_leases(t)
  return #b.leases < rule.probes
end

local function sum()
  local failures, total = 0, 0
  for _, s in ipairs(b.window) do
    failures = failures + s.failures
    total = total + s.failures + s.successes
  end
  return failures, total
end

local function count(t, failures, successes)
  local width = max(floor(rule.window / 10), 1)
  local start = t - t % width
  local n = #b.window
  if n == 0 or b.window[n].start < start then
    n = n + 1
    b.window[n] = { start = start, failures = 0, successes = 0 }
  end
  local last = b.window[n]
  last.failures = min(last.failures + failures, MAX_SLOT_COUNT)
  last.successes = min(last.successes + successes, MAX_SLOT_COUNT)
  while #b.window > 1 do
    local _, total = sum()
    local oldest, second = b.window[1], b.window[2]
    local outside = oldest.start <= start - rule.window
    if not (outside and total - oldest.failures - oldest.successes >= rule.min_attempts) then
      if #b.window <= MAX_SLOTS then return end
      second.failures = min(second.failures + oldest.failures, MAX_SLOT_COUNT)
      second.successes = min(second.successes + oldest.successes, MAX_SLOT_COUNT)
    end
    table.remove(b.window, 1)
  end
end

local function set_breaker(open_until)
  b.window, b.leases, b.probed, b.open_until = {}, {}, false, open_until
end

local function fail(t, n)
  if n == 0 then return end
  local s = state(t)
  if s == CLOSED then
    count(t, n, 0)
    local failures, total = sum()
    if total >= rule.min_attempts and failures * 1000000 >= rule.failure_ratio * total then
      set_breaker(t + rule.open_for)
    end
  elseif s == HALF_OPEN then
    end_leases(t)
    if #b.leases > 0 then set_breaker(b.leases[#b.leases]) end
  end
end

local function succeed(t, n)
  if n == 0 then return end
  local s = state(t)
  if s == CLOSED then
    count(t, 0, n)
  elseif s == HALF_OPEN and b.probed then
    set_breaker(0)
  end
end

-- ------------------------------------------------------------ the operations

local function record(t, name, n, firsts, for_caller, server_delay)
  if rule.ratio_max > 0 then b.lost = min(b.lost + 1000 * (n - firsts), MAX_YIELD) end
  if rule.deposit_on_request and firsts > 0 then
    deposit(firsts)
    earn(t, name, firsts)
  end
  if server_delay <= 0 or rule.cool_down_off then return end
  if not for_caller then
    b.cool_down = max(b.cool_down, t + server_delay)
    return
  end
  local c = caller(t, name)
  c.cool_down = max(c.cool_down, t + server_delay)
end

local function failed(t, name, n, firsts, for_caller, server_delay)
  fail(t, n)
  record(t, name, n, firsts, for_caller, server_delay)
end

local function cool_down_left(t, name)
  if rule.cool_down_off then return 0 end
  local c = callers[name] or callers[THE_REST]
  local till = max(b.cool_down, c and c.cool_down or 0)
  return min(max(till - t, 0), rule.longest_wait)
end

-- spend takes the cost; what it returns is the verdict and when to ask again
local function spend(t, name, cost, plain)
  local full, needed = capacity(), cost
  if spend_extra(cost, plain) then return GRANTED, -1, full end
  local c = rule.caller_share > 0 and caller(t, name)
  local own = not c or c.share >= cost
  if not own then needed = max(needed, floor(full / 2) + 1) end
  if b.tokens >= needed then
    b.tokens = b.tokens - cost
    if c and own then c.share = c.share - cost end
    return GRANTED, -1, full
  end
  if rule.nano_per_second > 0 and needed <= full then return NO_TOKENS, time_for(needed - b.tokens), full end
  return NO_TOKENS, -1, full
end

-- an answer: verdict, asked, tokens, capacity, cost, cool-down, ask again (-1: none),
-- breaker, report outcomes, replayed, own, delay, server delay, slot
local function ask(t, name, q)
  local s = state(t)
  local quiet = 0
  if not rule.budget_off and not rule.deposit_on_request and t - b.reported >= QUIET then quiet = 1 end
  local function answer(verdict, cool_down, again, full, slot)
    return { verdict, full and 1 or 0, full and b.tokens or 0, full or 0, full and q.cost or 0, cool_down, again, s, quiet,
             0, 0, 0, 0, slot or 0 }
  end
  if b.override == ALLOW then return answer(GRANTED, 0, -1) end
  if b.override == PAUSE then return answer(PAUSED, 0, b.override_until - t) end
  local waits = wait(t)
  if waits > 0 then return answer(OPEN_BREAKER, 0, waits) end
  local cool_down = cool_down_left(t, name)
  if q.fit and cool_down > q.fit then return answer(COOL_DOWN_TOO_LONG, cool_down, -1) end
  local slot = q.gap > 0 and slot_wait(t) or 0
  if q.gap > 0 and slot > q.furthest then return answer(NO_TOKENS, cool_down, slot - q.furthest) end
  if q.gap > 0 and q.fit and slot > q.fit then return answer(COOL_DOWN_TOO_LONG, cool_down, -1) end
  local verdict, again, full = GRANTED, -1, nil
  if not rule.budget_off then verdict, again, full = spend(t, name, q.cost, q.plain) end
  if verdict ~= GRANTED then return answer(verdict, cool_down, again, full) end
  if q.gap > 0 then take_slot(t, slot, q.gap) end
  if s == HALF_OPEN then
    b.leases[#b.leases + 1] = t + rule.open_for
    b.probed = true
  end
  return answer(verdict, cool_down, again, full, slot)
end

-- joined is a list of numbers as one text, which costs the reply less than a list
local function joined(list)
  for i, n in ipairs(list) do list[i] = text(n) end
  return table.concat(list, ',')
end

local dirty = false
local last = 0 -- the bucket's time at the last operation

-- run_ask answers an id as it was answered before
local function run_ask(i)
  local key = KEYS[number(i + 11)]
  local before = key and redis.call('GET', key)
  if before then return before end
  last = touch()
  local server_delay = number(i + 5)
  if not has_probe(last) then fail(last, number(i + 2)) end
  record(last, ARGV[i + 1], number(i + 2), number(i + 3), ARGV[i + 4] == '1', server_delay)
  local a = ask(last, ARGV[i + 1], { cost = number(i + 6), fit = tonumber(ARGV[i + 7]), plain = ARGV[i + 12] == '1',
                                    gap = number(i + 13), furthest = number(i + 14) })
  if ARGV[i + 10] == '1' then return joined(a) end
  dirty = true
  if key and a[1] == GRANTED then
    local kept = { unpack(a) }
    kept[10], kept[11], kept[12], kept[13] = 1, max(number(i + 8), kept[14]), max(number(i + 9), kept[14]), server_delay
    redis.call('SET', key, joined(kept), 'PX', IDS_LIVE)
  end
  return joined(a)
end

local function run_tell(i)
  last, dirty = touch(), true
  failed(last, ARGV[i + 1], number(i + 2), number(i + 3), ARGV[i + 4] == '1', number(i + 5))
  return {}
end

local function run_report(i)
  local key = KEYS[number(i + 5)]
  if key and not redis.call('SET', key, '1', 'PX', REPORTS_LIVE, 'NX') then return {} end
  last, dirty = touch(), true
  b.reported = last
  if rule.ratio_max > 0 then b.won = min(b.won + 1000 * number(i + 3), MAX_YIELD) end
  local successes, finals = number(i + 2) + number(i + 3), number(i + 4)
  local calls = successes
  if rule.deposit_on_request then calls = calls + finals end
  if not rule.budget_off and calls > 0 then
    deposit(calls)
    earn(last, ARGV[i + 1], calls)
  end
  succeed(last, successes)
  fail(last, finals)
  return {}
end

-- a state: asked, tokens, capacity, cost, cool-down, breaker, override, expires in, since; author; words
local function run_look(i)
  last = touch()
  local asked = rule.budget_off and 0 or 1
  local expires_in = b.override ~= NONE and b.override_until - last or 0
  local s = { asked, asked * b.tokens, asked * capacity(), asked * rule.unit, cool_down_left(last, ARGV[i + 1]), state(last),
              b.override, expires_in, b.override_since }
  return { joined(s), b.override_author, b.override_words }
end

local function run_override(i)
  last, dirty = touch(), true
  clear_override()
  local mode = number(i + 1)
  if mode ~= NONE then
    b.override, b.override_until, b.override_since = mode, last + number(i + 2), last
    b.override_author, b.override_words = ARGV[i + 3], ARGV[i + 4]
  end
  return {}
end

local run = { ask = run_ask, tell = run_tell, report = run_report, look = run_look, override = run_override }

local function ttl(t)
  local keep = IDS_LIVE
  local missing = capacity() - b.tokens
  if missing > 0 then
    local full = NO_REFILL_TTL
    if rule.nano_per_second > 0 then full = min(time_for(missing), LONGEST_TTL) end
    keep = max(keep, full)
  end
  keep = max(keep, b.cool_down - t, b.override_until - t, b.slot - t, rule.window + rule.open_for)
  for _, c in pairs(callers) do keep = max(keep, c.cool_down - t) end
  return keep + TTL_MARGIN
end

load()
local answers = {}
for i = RULE + 1, #ARGV, WIDTH do
  answers[#answers + 1] = run[ARGV[i]](i)
end
if dirty then save(ttl(last)) end
return answers
