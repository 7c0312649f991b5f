-- The fleet's state of a dependency in Redis: the arithmetic of bucket.go,
-- breaker.go and caller.go once more, and nothing else. Names are the same.
--
-- KEYS  for each bucket the hash, then those that hold decision_ids and report_ids
-- ARGV  for each bucket one JSON list: the clock in ms (false for Redis TIME), the
--       rule's numbers, for each operation its word, how many values follow, and
--       these; last, how many keys are the bucket's. One text that C decodes costs
--       the server a third of what as many arguments would, and a list of lists
--       half as much again.
--
-- Of one bucket the answers are a list; of more, a list of these, with an error in
-- the place of a bucket that has one: the others know nothing of it.
--
-- Every number is an integer below 2^53, which a double holds exactly, and is
-- written with %.0f: Lua's own text form keeps fourteen digits. Names in capitals
-- are constants, which redis.go puts in where they stand.

local floor, max, min = math.floor, math.max, math.min

local FAIL_OVER, QUIET, IDS_LIVE, REPORTS_LIVE = 10000, 60000, 60000, 600000
local TTL_MARGIN, LONGEST_TTL, NO_REFILL_TTL = 10000, 31622400000, 86400000
local MAX_CAPACITY, MAX_FLOW, MAX_MILLIS = 1000000000000, 4000000000000000, 9007199254740991
local MAX_CALLERS, THE_REST, FORGOTTEN = 100, '*', 600000
local MAX_SLOTS, MAX_SLOT_COUNT, FEW_SUCCESSES = 20, 100000000, 10
local FEW_RETRIES, POOR_YIELD, MAX_YIELD, MAX_EXTRA = 20000, 400, 1000000000000, 9
local OFF, CLOSED, OPEN, HALF_OPEN = 0, 1, 2, 3
local GRANTED, PAUSED, OPEN_BREAKER, COOL_DOWN_TOO_LONG, NO_TOKENS = 0, 1, 2, 3, 4
local NONE, PAUSE, ALLOW = 0, 1, 2

local format = string.format

-- A list is read where it stands: to give each of its numbers a name in a table
-- would cost a tenth of all. Of the call they are the rule's, and where the
-- operations begin,
local CAPACITY, CAPACITY_MILLIS, NANO_PER_SECOND, RATIO, CALLER_SHARE, UNIT = 2, 3, 4, 5, 6, 7
local BUDGET_OFF, DEPOSIT_ON_REQUEST, BREAKER, FAILURE_RATIO, MIN_ATTEMPTS = 8, 9, 10, 11, 12
local WINDOW_LENGTH, OPEN_FOR, PROBES, COOL_DOWN_OFF, LONGEST_WAIT, RATIO_MAX = 13, 14, 15, 16, 17, 18
local OPERATIONS = 19

-- and of the bucket what is kept in one field, then what is not.
local AT, REST, FLOW, FLOW_AT, REPORTED, COOL_DOWN, OPEN_UNTIL, PROBED = 1, 2, 3, 4, 5, 6, 7, 8
local OVERRIDE, OVERRIDE_UNTIL, OVERRIDE_SINCE, WON, LOST, EXTRA, SLOT, SLOT_US = 9, 10, 11, 12, 13, 14, 15, 16
local WINDOW, LEASES = 17, 18
local TOKENS, OVERRIDE_AUTHOR, OVERRIDE_WORDS = 19, 20, 21

local rule
local now, time
local before, keys = 0, 0 -- of the buckets before, of this one
local b                   -- the bucket; nil: there is none yet

-- All that follows is one function. What its functions share with what is above
-- Lua then copies; in one and the same function it looks for each of these in a
-- list, for every function that is made, which is at every call.
local function serve()

-- ------------------------------------------------------------------ the hash

local callers, known -- by name, and how many
local changed        -- callers to write; false: to delete
local words          -- of the override, as they were read

local START, FAILURES, SUCCESSES = 1, 2, 3 -- of a slot of the breaker's window

-- The hash has the tokens, for people to read; the other numbers of the bucket
-- in one field, a JSON list; a field for each caller; and an override's author
-- and words while there is one.

local function load()
  local tokens
  local flat = redis.call('HGETALL', KEYS[before + 1])
  for i = 1, #flat, 2 do
    local name, value = flat[i], flat[i + 1]
    if name == 'numbers' then
      b = cjson.decode(value)
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
  if not b then return end
  b[TOKENS], b[OVERRIDE_AUTHOR], b[OVERRIDE_WORDS] = tokens, words.author or '', words.words or ''
end

local function save(ttl)
  local slots, leases = {}, {}
  for i, s in ipairs(b[WINDOW]) do slots[i] = format('[%.0f,%.0f,%.0f]', s[START], s[FAILURES], s[SUCCESSES]) end
  for i, l in ipairs(b[LEASES]) do leases[i] = format('%.0f', l) end
  local numbers = format('[%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,[', unpack(b, 1, SLOT_US))
    .. table.concat(slots, ',') .. '],[' .. table.concat(leases, ',') .. ']]'
  local args = { 'tokens', format('%.0f', b[TOKENS]), 'numbers', numbers }
  local gone = {}
  if b[OVERRIDE] ~= NONE then
    args[5], args[6], args[7], args[8] = 'author', b[OVERRIDE_AUTHOR], 'words', b[OVERRIDE_WORDS]
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
  redis.call('HSET', KEYS[before + 1], unpack(args))
  if #gone > 0 then redis.call('HDEL', KEYS[before + 1], unpack(gone)) end
  redis.call('PEXPIRE', KEYS[before + 1], format('%.0f', ttl))
end

-- ----------------------------------------------------------------- bucket.go

local function capacity()
  if rule[CAPACITY_MILLIS] == 0 then return rule[CAPACITY] end
  local rate, grown = floor(b[FLOW] / 10), MAX_CAPACITY
  if rate <= floor(MAX_CAPACITY * 1000 / rule[CAPACITY_MILLIS]) then
    grown = min(grown, floor(rate * rule[CAPACITY_MILLIS] / 1000))
  end
  return max(rule[CAPACITY], grown)
end

local function shift(ms)
  b[AT] = b[AT] + ms
  b[FLOW_AT] = floor(b[AT] / 1000)
  b[REPORTED] = b[REPORTED] + ms
  b[COOL_DOWN] = b[COOL_DOWN] + ms
  b[OVERRIDE_UNTIL] = b[OVERRIDE_UNTIL] + ms
  b[SLOT] = b[SLOT] + ms
  for _, s in ipairs(b[WINDOW]) do s[START] = s[START] + ms end
  for i, l in ipairs(b[LEASES]) do b[LEASES][i] = l + ms end
  if b[OPEN_UNTIL] ~= 0 then b[OPEN_UNTIL] = max(b[OPEN_UNTIL] + ms, 1) end
  for name, c in pairs(callers) do
    c.cool_down, c.seen = c.cool_down + ms, c.seen + ms
    changed[name] = c
  end
end

local function faded(v) return v - floor((v + 9) / 10) end

local function fade(second)
  local n = second - b[FLOW_AT]
  while n > 0 and (b[FLOW] > 0 or b[WON] > 0 or b[LOST] > 0) do
    b[FLOW], b[WON], b[LOST] = faded(b[FLOW]), faded(b[WON]), faded(b[LOST])
    n = n - 1
  end
  b[FLOW_AT] = max(b[FLOW_AT], second)
end

local function time_to_full(missing)
  if rule[NANO_PER_SECOND] == 0 then return 0 end
  local micro = floor(rule[NANO_PER_SECOND] / 1000)
  if micro == 0 then return LONGEST_TTL end
  return floor(missing * 1000 / micro) + 1
end

local function credit(t)
  local missing, elapsed = capacity() - b[TOKENS], t - b[AT]
  b[AT] = t
  if missing <= 0 then
    b[TOKENS], b[REST] = b[TOKENS] + missing, 0
    return
  end
  elapsed = min(elapsed, LONGEST_TTL, time_to_full(missing))
  local micro, nano = floor(rule[NANO_PER_SECOND] / 1000), rule[NANO_PER_SECOND] % 1000
  local whole = elapsed * micro
  local parts = whole % 1000 * 1000 + elapsed * nano + b[REST]
  local gain = floor(whole / 1000) + floor(parts / 1000000)
  b[REST] = parts % 1000000
  if gain >= missing then gain, b[REST] = missing, 0 end
  b[TOKENS] = b[TOKENS] + gain
end

-- ------------------------------------------------------- yield.go and pace.go

local function yield_share()
  local total = b[WON] + b[LOST]
  if total < FEW_RETRIES then return 0 end
  return min(max((floor(b[WON] * 1000 / total) - POOR_YIELD) * 5, 0), 1000)
end

local function extra_capacity()
  if rule[RATIO_MAX] <= rule[RATIO] then return 0 end
  local times = MAX_EXTRA
  if rule[RATIO] > 0 then times = min(max(floor((rule[RATIO_MAX] - rule[RATIO]) / rule[RATIO]), 1), MAX_EXTRA) end
  return floor(capacity() * (times * yield_share()) / 1000)
end

local function deposit_extra(calls)
  if rule[RATIO_MAX] <= rule[RATIO] then return end
  local gain = min(calls * floor((rule[RATIO_MAX] - rule[RATIO]) * yield_share() / 1000), MAX_FLOW)
  b[EXTRA] = min(b[EXTRA] + gain, extra_capacity())
end

local function spend_extra(cost, plain)
  if not plain or rule[RATIO_MAX] == 0 or b[EXTRA] < cost then return false end
  b[EXTRA] = b[EXTRA] - cost
  return true
end

-- slot_wait is in how many ms the next slot of a paced fleet begins, none before
-- the earliest
local function slot_wait(t, earliest)
  return max(b[SLOT] - t + (b[SLOT_US] > 0 and 1 or 0), earliest)
end

local function take_slot(t, wait, earliest, gap)
  if wait == earliest then b[SLOT], b[SLOT_US] = t + earliest, 0 end
  local us = b[SLOT_US] + gap
  b[SLOT], b[SLOT_US] = b[SLOT] + floor(us / 1000), us % 1000
end

-- ------------------------------------------------------------ bucket.go again

local function clear_override()
  b[OVERRIDE], b[OVERRIDE_UNTIL], b[OVERRIDE_SINCE], b[OVERRIDE_AUTHOR], b[OVERRIDE_WORDS] = NONE, 0, 0, '', ''
end

local touched -- the bucket's time, once it was brought there: for what follows in this call no time passes

local function touch()
  if not touched then
    if not b then
      b = { now, 0, 0, floor(now / 1000), now, 0, 0, 0, NONE, 0, 0, 0, 0, 0, 0, 0, {}, {}, rule[CAPACITY], '', '' }
    elseif now < b[AT] - FAIL_OVER then
      shift(now - b[AT])
    end
    touched = max(now, b[AT])
    fade(floor(touched / 1000))
    credit(touched)
  end
  if b[EXTRA] > 0 then b[EXTRA] = min(b[EXTRA], extra_capacity()) end
  if b[OVERRIDE] ~= NONE and b[OVERRIDE_UNTIL] <= touched then clear_override() end
  return touched
end

local function deposit(calls)
  local gain = min(calls * rule[RATIO], MAX_FLOW)
  b[FLOW] = min(b[FLOW] + gain, MAX_FLOW)
  b[TOKENS] = b[TOKENS] + gain
  local full = capacity()
  if b[TOKENS] >= full then b[TOKENS], b[REST] = full, 0 end
  deposit_extra(calls)
end

local function time_for(missing)
  local nano = rule[NANO_PER_SECOND]
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
    c = { share = rule[UNIT], cool_down = 0 }
    callers[name], known = c, known + 1
  end
  c.seen, changed[name] = t, c
  return c
end

local function earn(t, name, calls)
  if rule[CALLER_SHARE] == 0 then return end
  local c = caller(t, name)
  c.share = min(c.share + calls * rule[CALLER_SHARE], 2 * rule[UNIT])
end

-- ---------------------------------------------------------------- breaker.go

local function state(t)
  if not rule[BREAKER] then return OFF end
  if b[OPEN_UNTIL] == 0 then return CLOSED end
  if t < b[OPEN_UNTIL] then return OPEN end
  return HALF_OPEN
end

local function end_leases(t)
  while b[LEASES][1] and b[LEASES][1] <= t do table.remove(b[LEASES], 1) end
end

local function wait(t)
  local s = state(t)
  if s == OPEN then return b[OPEN_UNTIL] - t end
  if s == HALF_OPEN then
    end_leases(t)
    if #b[LEASES] >= rule[PROBES] then return b[LEASES][1] - t end
  end
  return 0
end

local function has_probe(t)
  if state(t) ~= HALF_OPEN then return false end
  end_leases(t)
  return #b[LEASES] < rule[PROBES]
end

local function sum()
  local failures, total = 0, 0
  for _, s in ipairs(b[WINDOW]) do
    failures = failures + s[FAILURES]
    total = total + s[FAILURES] + s[SUCCESSES]
  end
  return failures, total
end

local function count(t, failures, successes)
  local width = max(floor(rule[WINDOW_LENGTH] / 10), 1)
  local start = t - t % width
  local n = #b[WINDOW]
  if n == 0 or b[WINDOW][n][START] < start then
    n = n + 1
    b[WINDOW][n] = { start, 0, 0 }
  end
  local last = b[WINDOW][n]
  last[FAILURES] = min(last[FAILURES] + failures, MAX_SLOT_COUNT)
  last[SUCCESSES] = min(last[SUCCESSES] + successes, MAX_SLOT_COUNT)
  while #b[WINDOW] > 1 do
    local _, total = sum()
    local oldest, second = b[WINDOW][1], b[WINDOW][2]
    local outside = oldest[START] <= start - rule[WINDOW_LENGTH]
    if not (outside and total - oldest[FAILURES] - oldest[SUCCESSES] >= rule[MIN_ATTEMPTS]) then
      if #b[WINDOW] <= MAX_SLOTS then return end
      second[FAILURES] = min(second[FAILURES] + oldest[FAILURES], MAX_SLOT_COUNT)
      second[SUCCESSES] = min(second[SUCCESSES] + oldest[SUCCESSES], MAX_SLOT_COUNT)
    end
    table.remove(b[WINDOW], 1)
  end
end

local function set_breaker(open_until)
  b[WINDOW], b[LEASES], b[PROBED], b[OPEN_UNTIL] = {}, {}, 0, open_until
end

local function judge(t)
  local failures, total = sum()
  if b[OPEN_UNTIL] ~= 0 and failures == 0 and total >= min(rule[MIN_ATTEMPTS], FEW_SUCCESSES) then return set_breaker(0) end
  if total < rule[MIN_ATTEMPTS] then return end
  if failures * 1000000 >= rule[FAILURE_RATIO] * total then
    set_breaker(t + rule[OPEN_FOR])
  elseif b[OPEN_UNTIL] ~= 0 then
    set_breaker(0)
  end
end

local function fail(t, n)
  if n == 0 then return end
  local s = state(t)
  if s == HALF_OPEN then
    end_leases(t)
    if #b[LEASES] > 0 then return set_breaker(b[LEASES][#b[LEASES]]) end
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
    if b[PROBED] == 1 then return set_breaker(0) end
    count(t, 0, n)
    judge(t)
  end
end

-- ------------------------------------------------------------ the operations

local function record(t, name, n, firsts, for_caller, server_delay)
  if rule[RATIO_MAX] > 0 then b[LOST] = min(b[LOST] + 1000 * (n - firsts), MAX_YIELD) end
  if rule[DEPOSIT_ON_REQUEST] and firsts > 0 then
    deposit(firsts)
    earn(t, name, firsts)
  end
  if server_delay <= 0 or rule[COOL_DOWN_OFF] then return end
  if not for_caller then
    b[COOL_DOWN] = max(b[COOL_DOWN], t + server_delay)
    return
  end
  local c = caller(t, name)
  c.cool_down = max(c.cool_down, t + server_delay)
end

local function failed(t, name, n, firsts, for_caller, server_delay)
  fail(t, n)
  record(t, name, n, firsts, for_caller, server_delay)
end

local function fleet_cool_down(t)
  if rule[COOL_DOWN_OFF] then return 0 end
  return min(max(b[COOL_DOWN] - t, 0), rule[LONGEST_WAIT])
end

local function cool_down_left(t, name)
  if rule[COOL_DOWN_OFF] then return 0 end
  local c = callers[name] or callers[THE_REST]
  return max(fleet_cool_down(t), min((c and c.cool_down or 0) - t, rule[LONGEST_WAIT]))
end

-- spend takes the cost; what it returns is the verdict and when to ask again
local function spend(t, name, cost, plain)
  local full, needed = capacity(), cost
  if spend_extra(cost, plain) then return GRANTED, -1, full end
  local c = rule[CALLER_SHARE] > 0 and caller(t, name)
  local own = not c or c.share >= cost
  if not own then needed = max(needed, floor(full / 2) + 1) end
  if b[TOKENS] >= needed then
    b[TOKENS] = b[TOKENS] - cost
    if c and own then c.share = c.share - cost end
    return GRANTED, -1, full
  end
  if rule[NANO_PER_SECOND] > 0 and needed <= full then return NO_TOKENS, time_for(needed - b[TOKENS]), full end
  return NO_TOKENS, -1, full
end

local said, said_full, said_cool_down, said_again, said_state, said_quiet, said_slot -- by the last answer, but for its tokens

-- an answer: verdict, asked, tokens, capacity, cool-down, ask again (-1: none),
-- breaker, report outcomes, slot; kept with an id also own, delay, server delay,
-- cost. One that says nothing new but the tokens is that number: to write a
-- number as text costs as much as to decide.
local function answer(verdict, cool_down, again, full, slot, s, quiet, whole)
  local tokens = full and b[TOKENS] or 0
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
  if b[OVERRIDE] == ALLOW then return GRANTED, 0, -1 end
  if b[OVERRIDE] == PAUSE then return PAUSED, 0, b[OVERRIDE_UNTIL] - t end
  local waits = wait(t)
  if waits > 0 then return OPEN_BREAKER, 0, waits end
  local cool_down = cool_down_left(t, name)
  if fit and cool_down > fit then return COOL_DOWN_TOO_LONG, cool_down, -1 end
  local earliest = gap > 0 and fleet_cool_down(t) or 0
  local slot = gap > 0 and slot_wait(t, earliest) or 0
  if gap > 0 and slot - earliest > furthest then return NO_TOKENS, cool_down, slot - furthest end
  if gap > 0 and fit and slot > fit then return COOL_DOWN_TOO_LONG, cool_down, -1, nil, slot end
  local verdict, again, full = GRANTED, -1, nil
  if not rule[BUDGET_OFF] then verdict, again, full = spend(t, name, cost, plain) end
  if verdict ~= GRANTED then return verdict, cool_down, again, full end
  if gap > 0 then take_slot(t, slot, earliest, gap) end
  if s == HALF_OPEN then
    b[LEASES][#b[LEASES] + 1] = t + rule[OPEN_FOR]
    b[PROBED] = 1
  end
  return verdict, cool_down, again, full, slot
end

local dirty
local last -- the bucket's time at the last operation

-- run_ask answers an id as it was answered before
local function run_ask(name, count, firsts, for_caller, server_delay, cost, fit, plain, gap, furthest, dry_run, key, own, delay)
  if key then
    local kept = redis.call('GET', KEYS[before + key])
    if kept then return kept end
  end
  local t = touch()
  last = t
  if not has_probe(t) then fail(t, count) end
  record(t, name, count, firsts, for_caller, server_delay)
  local s = state(t)
  local quiet = not rule[BUDGET_OFF] and not rule[DEPOSIT_ON_REQUEST] and t - b[REPORTED] >= QUIET and 1 or 0
  local verdict, cool_down, again, full, slot = ask(t, s, name, cost, fit, plain, gap or 0, furthest)
  slot = slot or 0
  local text = answer(verdict, cool_down, again, full, slot, s, quiet, key)
  if dry_run then return text end
  dirty = true
  if key and verdict == GRANTED then
    local kept = format('%s,%.0f,%.0f,%.0f,%.0f', text, own, max(delay, slot), server_delay, full and cost or 0)
    redis.call('SET', KEYS[before + key], kept, 'PX', IDS_LIVE)
  end
  return text
end

local function run_tell(name, count, firsts, for_caller, server_delay)
  last, dirty = touch(), true
  failed(last, name, count, firsts, for_caller, server_delay)
  return ''
end

local function run_report(name, first_tries, retries, finals, key)
  if key and not redis.call('SET', KEYS[before + key], '1', 'PX', REPORTS_LIVE, 'NX') then return '' end
  last, dirty = touch(), true
  b[REPORTED] = last
  if rule[RATIO_MAX] > 0 then b[WON] = min(b[WON] + 1000 * retries, MAX_YIELD) end
  local successes = first_tries + retries
  local calls = successes
  if rule[DEPOSIT_ON_REQUEST] then calls = calls + finals end
  if not rule[BUDGET_OFF] and calls > 0 then
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
  local asked = rule[BUDGET_OFF] and 0 or 1
  local expires_in = b[OVERRIDE] ~= NONE and b[OVERRIDE_UNTIL] - last or 0
  local s = format('%d,%.0f,%.0f,%.0f,%.0f,%d,%d,%.0f,%.0f', asked, asked * b[TOKENS], asked * capacity(), asked * rule[UNIT],
                   cool_down_left(last, name), state(last), b[OVERRIDE], expires_in, b[OVERRIDE_SINCE])
  return { s, b[OVERRIDE_AUTHOR], b[OVERRIDE_WORDS] }
end

local function run_override(mode, lasts, author, why)
  last, dirty = touch(), true
  clear_override()
  if mode ~= NONE then
    b[OVERRIDE], b[OVERRIDE_UNTIL], b[OVERRIDE_SINCE] = mode, last + lasts, last
    b[OVERRIDE_AUTHOR], b[OVERRIDE_WORDS] = author, why
  end
  return ''
end

local run = { ask = run_ask, tell = run_tell, report = run_report, look = run_look, override = run_override }

local function ttl(t)
  local keep = IDS_LIVE
  local missing = capacity() - b[TOKENS]
  if missing > 0 then
    local full = NO_REFILL_TTL
    if rule[NANO_PER_SECOND] > 0 then full = min(time_for(missing), LONGEST_TTL) end
    keep = max(keep, full)
  end
  keep = max(keep, b[COOL_DOWN] - t, b[OVERRIDE_UNTIL] - t, b[SLOT] - t, rule[WINDOW_LENGTH] + rule[OPEN_FOR])
  for _, c in pairs(callers) do keep = max(keep, c.cool_down - t) end
  return keep + TTL_MARGIN
end

local function serve_one(text)
  local call = cjson.decode(text)
  rule, now, keys = call, call[1], call[#call]
  if not now then
    time = time or redis.call('TIME')
    now = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
  end
  b, callers, known, changed, words, touched, said, dirty, last = nil, {}, 0, {}, {}, nil, nil, false, 0
  load()
  local answers, at, behind = {}, OPERATIONS, #call
  while at < behind do
    local first = at + 2
    at = first + call[at + 1]
    answers[#answers + 1] = run[call[first - 2]](unpack(call, first, at - 1))
  end
  if dirty then save(ttl(last)) end
  return answers
end

if #ARGV == 1 then return serve_one(ARGV[1]) end
local all = {}
for i, text in ipairs(ARGV) do
  local good, answers = pcall(serve_one, text)
  all[i] = good and answers or { err = answers.err or answers }
  before = before + keys
end
return all

end

return serve()
