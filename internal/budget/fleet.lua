-- The fleet's state of one dependency in Redis: the arithmetic of bucket.go,
-- breaker.go and caller.go once more, and nothing else. Names are the same.
--
-- KEYS[1]  the bucket, a hash; the others hold decision_ids and report_ids
-- ARGV[1]  one JSON list: the clock in ms (false for Redis TIME), the rule's
--          numbers, then for each operation its word, how many values follow,
--          and these. One text that C decodes costs the server a third of what
--          as many arguments would, and a list of lists half as much again.
--
-- Every number is an integer below 2^53, which a double holds exactly, and is
-- written with %.0f: Lua's own text form keeps fourteen digits. Names in capitals
-- are constants, which redis.go puts in where they stand.

local floor, max, min = math.floor, math.max, math.min

local FAIL_OVER, QUIET, IDS_LIVE, REPORTS_LIVE = 10000, 60000, 60000, 600000
local TTL_MARGIN, LONGEST_TTL, NO_REFILL_TTL = 10000, 31622400000, 86400000
local MAX_CAPACITY, MAX_FLOW, MAX_MILLIS = 1000000000000, 4000000000000000, 9007199254740991
local MAX_CALLERS, THE_REST, FORGOTTEN = 100, '*', 600000
local MAX_SLOTS, MAX_SLOT_COUNT, FEW_SUCCESSES = 20, 100000000, 5
local FEW_RETRIES, POOR_YIELD, MAX_YIELD, MAX_EXTRA = 20000, 400, 1000000000000, 9
local OFF, CLOSED, OPEN, HALF_OPEN = 0, 1, 2, 3
local GRANTED, PAUSED, OPEN_BREAKER, COOL_DOWN_TOO_LONG, NO_TOKENS = 0, 1, 2, 3, 4
local NONE, PAUSE, ALLOW = 0, 1, 2

local format = string.format

local call = cjson.decode(ARGV[1])

local rule = {
  capacity = call[2], capacity_millis = call[3], nano_per_second = call[4], ratio = call[5],
  caller_share = call[6], unit = call[7], budget_off = call[8], deposit_on_request = call[9],
  breaker = call[10], failure_ratio = call[11], min_attempts = call[12], window = call[13],
  open_for = call[14], probes = call[15], cool_down_off = call[16], longest_wait = call[17],
  ratio_max = call[18],
}

local now = call[1]
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
end

local b = {} -- the bucket

-- All that follows is one function. What its functions share with what is above
-- Lua then copies; in one and the same function it looks for each of these in a
-- list, for every function that is made, which is at every call.
local function serve()

-- ------------------------------------------------------------------ the hash

local callers, known = {}, 0 -- by name, and how many
local changed = {}           -- callers to write; false: to delete
local words = {}             -- of the override, as they were read

local START, FAILURES, SUCCESSES = 1, 2, 3 -- of a slot of the breaker's window

-- The hash has the tokens, for people to read; the other numbers of the bucket
-- in one field, a JSON list; a field for each caller; and an override's author
-- and words while there is one.

local function load()
  local tokens
  local flat = redis.call('HGETALL', KEYS[1])
  for i = 1, #flat, 2 do
    local name, value = flat[i], flat[i + 1]
    if name == 'numbers' then
      local n = cjson.decode(value)
      b = { exists = true, at = n[1], rest = n[2], flow = n[3], flow_at = n[4], reported = n[5],
            cool_down = n[6], open_until = n[7], probed = n[8] == 1, override = n[9], override_until = n[10],
            override_since = n[11], won = n[12], lost = n[13], extra = n[14], slot = n[15], slot_us = n[16],
            window = n[17], leases = n[18] }
    elseif name == 'tokens' then
      tokens = tonumber(value)
    elseif string.sub(name, 1, 7) == 'caller:' then
      local c = cjson.decode(value)
      callers[string.sub(name, 8)] = { share = c[1], cool_down = c[2], seen = c[3] }
      known = known + 1
    else
      words[name] = value
    end
  end
  b.tokens = tokens
  b.override_author, b.override_words = words.author or '', words.words or ''
end

local function save(ttl)
  local slots, leases = {}, {}
  for i, s in ipairs(b.window) do slots[i] = format('[%.0f,%.0f,%.0f]', s[START], s[FAILURES], s[SUCCESSES]) end
  for i, l in ipairs(b.leases) do leases[i] = format('%.0f', l) end
  local numbers = format('[%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%d,%d,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%d,[%s],[%s]]',
    b.at, b.rest, b.flow, b.flow_at, b.reported, b.cool_down, b.open_until, b.probed and 1 or 0, b.override,
    b.override_until, b.override_since, b.won, b.lost, b.extra, b.slot, b.slot_us, table.concat(slots, ','), table.concat(leases, ','))
  local args = { 'tokens', format('%.0f', b.tokens), 'numbers', numbers }
  local gone = {}
  if b.override ~= NONE then
    args[5], args[6], args[7], args[8] = 'author', b.override_author, 'words', b.override_words
  elseif words.author then
    gone[1], gone[2] = 'author', 'words'
  end
  for name, c in pairs(changed) do
    if c then
      args[#args + 1] = 'caller:' .. name
      args[#args + 1] = format('[%.0f,%.0f,%.0f]', c.share, c.cool_down, c.seen)
    else
      gone[#gone + 1] = 'caller:' .. name
    end
  end
  redis.call('HSET', KEYS[1], unpack(args))
  if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
  redis.call('PEXPIRE', KEYS[1], format('%.0f', ttl))
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
  for _, s in ipairs(b.window) do s[START] = s[START] + ms end
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

local touched -- the bucket's time, once it was brought there: for what follows in this call no time passes

local function touch()
  if not touched then
    if not b.exists then
      b = { exists = true, at = now, rest = 0, tokens = rule.capacity, flow = 0, flow_at = floor(now / 1000), reported = now,
            cool_down = 0, open_until = 0, probed = false, window = {}, leases = {}, won = 0, lost = 0, extra = 0, slot = 0, slot_us = 0 }
      clear_override()
    elseif now < b.at - FAIL_OVER then
      shift(now - b.at)
    end
    touched = max(now, b.at)
    fade(floor(touched / 1000))
    credit(touched)
  end
  if b.extra > 0 then b.extra = min(b.extra, extra_capacity()) end
  if b.override ~= NONE and b.override_until <= touched then clear_override() end
  return touched
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
    failures = failures + s[FAILURES]
    total = total + s[FAILURES] + s[SUCCESSES]
  end
  return failures, total
end

local function count(t, failures, successes)
  local width = max(floor(rule.window / 10), 1)
  local start = t - t % width
  local n = #b.window
  if n == 0 or b.window[n][START] < start then
    n = n + 1
    b.window[n] = { start, 0, 0 }
  end
  local last = b.window[n]
  last[FAILURES] = min(last[FAILURES] + failures, MAX_SLOT_COUNT)
  last[SUCCESSES] = min(last[SUCCESSES] + successes, MAX_SLOT_COUNT)
  while #b.window > 1 do
    local _, total = sum()
    local oldest, second = b.window[1], b.window[2]
    local outside = oldest[START] <= start - rule.window
    if not (outside and total - oldest[FAILURES] - oldest[SUCCESSES] >= rule.min_attempts) then
      if #b.window <= MAX_SLOTS then return end
      second[FAILURES] = min(second[FAILURES] + oldest[FAILURES], MAX_SLOT_COUNT)
      second[SUCCESSES] = min(second[SUCCESSES] + oldest[SUCCESSES], MAX_SLOT_COUNT)
    end
    table.remove(b.window, 1)
  end
end

local function set_breaker(open_until)
  b.window, b.leases, b.probed, b.open_until = {}, {}, false, open_until
end

local function judge(t)
  local failures, total = sum()
  if b.open_until ~= 0 and failures == 0 and total >= min(rule.min_attempts, FEW_SUCCESSES) then return set_breaker(0) end
  if total < rule.min_attempts then return end
  if failures * 1000000 >= rule.failure_ratio * total then
    set_breaker(t + rule.open_for)
  elseif b.open_until ~= 0 then
    set_breaker(0)
  end
end

local function fail(t, n)
  if n == 0 then return end
  local s = state(t)
  if s == HALF_OPEN then
    end_leases(t)
    if #b.leases > 0 then return set_breaker(b.leases[#b.leases]) end
  end
  if s == CLOSED or s == HALF_OPEN then
    count(t, n, 0)
    judge(t)
  end
end

local function succeed(t, n)
  if n == 0 then return end
  local s = state(t)
  if s == CLOSED then
    count(t, 0, n)
  elseif s == HALF_OPEN then
    if b.probed then return set_breaker(0) end
    count(t, 0, n)
    judge(t)
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

local said, said_full, said_cool_down, said_again, said_state, said_quiet, said_slot -- by the last answer, but for its tokens

-- an answer: verdict, asked, tokens, capacity, cool-down, ask again (-1: none),
-- breaker, report outcomes, slot; kept with an id also own, delay, server delay,
-- cost. One that says nothing new but the tokens is that number: to write a
-- number as text costs as much as to decide.
local function answer(verdict, cool_down, again, full, slot, s, quiet, whole)
  local tokens = full and b.tokens or 0
  if not whole and said == verdict and said_full == full and said_cool_down == cool_down and said_again == again
     and said_state == s and said_quiet == quiet and said_slot == slot then
    return tokens
  end
  said, said_full, said_cool_down, said_again, said_state, said_quiet, said_slot = verdict, full, cool_down, again, s, quiet, slot
  return format('%d,%d,%.0f,%.0f,%.0f,%.0f,%d,%d,%.0f', verdict, full and 1 or 0, tokens, full or 0,
                cool_down, again, s, quiet, slot)
end

-- ask is step 9 of a decision: the verdict, the cool-down that it found, when to
-- ask again, the capacity where the budget was asked, and the slot
local function ask(t, s, name, cost, fit, plain, gap, furthest)
  if b.override == ALLOW then return GRANTED, 0, -1 end
  if b.override == PAUSE then return PAUSED, 0, b.override_until - t end
  local waits = wait(t)
  if waits > 0 then return OPEN_BREAKER, 0, waits end
  local cool_down = cool_down_left(t, name)
  if fit and cool_down > fit then return COOL_DOWN_TOO_LONG, cool_down, -1 end
  local slot = gap > 0 and slot_wait(t) or 0
  if gap > 0 and slot > furthest then return NO_TOKENS, cool_down, slot - furthest end
  if gap > 0 and fit and slot > fit then return COOL_DOWN_TOO_LONG, cool_down, -1 end
  local verdict, again, full = GRANTED, -1, nil
  if not rule.budget_off then verdict, again, full = spend(t, name, cost, plain) end
  if verdict ~= GRANTED then return verdict, cool_down, again, full end
  if gap > 0 then take_slot(t, slot, gap) end
  if s == HALF_OPEN then
    b.leases[#b.leases + 1] = t + rule.open_for
    b.probed = true
  end
  return verdict, cool_down, again, full, slot
end

local dirty = false
local last = 0 -- the bucket's time at the last operation

-- run_ask answers an id as it was answered before
local function run_ask(name, count, firsts, for_caller, server_delay, cost, fit, plain, gap, furthest, dry_run, key, own, delay)
  if key then
    local before = redis.call('GET', KEYS[key])
    if before then return before end
  end
  local t = touch()
  last = t
  if not has_probe(t) then fail(t, count) end
  record(t, name, count, firsts, for_caller, server_delay)
  local s = state(t)
  local quiet = not rule.budget_off and not rule.deposit_on_request and t - b.reported >= QUIET and 1 or 0
  local verdict, cool_down, again, full, slot = ask(t, s, name, cost, fit, plain, gap or 0, furthest)
  slot = slot or 0
  local text = answer(verdict, cool_down, again, full, slot, s, quiet, key)
  if dry_run then return text end
  dirty = true
  if key and verdict == GRANTED then
    local kept = format('%s,%.0f,%.0f,%.0f,%.0f', text, max(own, slot), max(delay, slot), server_delay, full and cost or 0)
    redis.call('SET', KEYS[key], kept, 'PX', IDS_LIVE)
  end
  return text
end

local function run_tell(name, count, firsts, for_caller, server_delay)
  last, dirty = touch(), true
  failed(last, name, count, firsts, for_caller, server_delay)
  return ''
end

local function run_report(name, first_tries, retries, finals, key)
  if key and not redis.call('SET', KEYS[key], '1', 'PX', REPORTS_LIVE, 'NX') then return '' end
  last, dirty = touch(), true
  b.reported = last
  if rule.ratio_max > 0 then b.won = min(b.won + 1000 * retries, MAX_YIELD) end
  local successes = first_tries + retries
  local calls = successes
  if rule.deposit_on_request then calls = calls + finals end
  if not rule.budget_off and calls > 0 then
    deposit(calls)
    earn(last, name, calls)
  end
  succeed(last, successes)
  fail(last, finals)
  return ''
end

-- a state: asked, tokens, capacity, cost, cool-down, breaker, override, expires in, since; author; words
local function run_look(name)
  last = touch()
  local asked = rule.budget_off and 0 or 1
  local expires_in = b.override ~= NONE and b.override_until - last or 0
  local s = format('%d,%.0f,%.0f,%.0f,%.0f,%d,%d,%.0f,%.0f', asked, asked * b.tokens, asked * capacity(), asked * rule.unit,
                   cool_down_left(last, name), state(last), b.override, expires_in, b.override_since)
  return { s, b.override_author, b.override_words }
end

local function run_override(mode, lasts, author, why)
  last, dirty = touch(), true
  clear_override()
  if mode ~= NONE then
    b.override, b.override_until, b.override_since = mode, last + lasts, last
    b.override_author, b.override_words = author, why
  end
  return ''
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
local answers, at, behind = {}, 19, #call + 1
while at < behind do
  local first = at + 2
  at = first + call[at + 1]
  answers[#answers + 1] = run[call[first - 2]](unpack(call, first, at - 1))
end
if dirty then save(ttl(last)) end
return answers

end

return serve()
