-- The deciders that share this store: one field per replica, "seen in ms|what
-- it says of itself". KEYS[1] the roster; ARGV the clock in ms ('' for Redis
-- TIME), the replica's id, what it says ('' to leave), and how long in ms a
-- silent replica is kept.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local keep = tonumber(ARGV[4])
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[2])
else
  redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f', now) .. '|' .. ARGV[3])
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep * 2))
end
local alive = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local seen, says = string.match(all[i + 1], '^(%d+)|(.*)$')
  if seen and math.abs(now - tonumber(seen)) <= keep then
    alive[#alive + 1] = all[i]
    alive[#alive + 1] = says
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return alive
