-- A heartbeat: live on, save what was learned, free the hosts of who has died.
-- ARGV 2=session 3=spider 4=egress 5=ttl ms 6=hungry 7=ms for which what was learned is kept
--      then host, generation, state ...
-- returns {members, hosts held, generation of the orders, generations that others wait for, damaged,
-- run id of the server}
local session, n, egress, ttl = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local S = spider(n)
redis.call('DEL', P .. ':none') -- a script that has written goes on where the memory is full
local _, life = grace(ttl)
redis.call('SADD', S .. ':e', egress)
redis.call('SADD', S .. ':m:' .. egress, session)
local deadline = deadline_of(session)
if deadline == 0 then return redis.error_reply('LOST session') end
-- Who was cut off for a while knows nothing of others, which may have been so as well, and may not
-- have said yet that a site refuses them. To it a clock that was set is the same.
local ends_others_at = tonumber(redis.call('HGET', P .. ':n:' .. session, 'ends others'))
if not ends_others_at or deadline < now + ttl / 2 or deadline > now + ttl then
  ends_others_at = now + ttl
  redis.call('HSET', P .. ':n:' .. session, 'ends others', ends_others_at)
end
redis.call('ZADD', P .. ':sessions', now + ttl, session)
redis.call('HSET', P .. ':n:' .. session, 'hungry', ARGV[6])
for i = 8, #ARGV, 3 do
  local holder, generation = lease_of(egress, ARGV[i])
  if holder == session and generation == ARGV[i + 1] then
    redis.call('SET', P .. ':t:' .. egress .. ':' .. ARGV[i], string.format('%.0f ', now) .. ARGV[i + 2], 'PX', ARGV[7])
  end
end
if now >= ends_others_at then
  local budget = 2000
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', P .. ':sessions', '-inf', string.format('(%.0f', now), 'LIMIT', 0, 8)) do
    if budget > 0 then budget = end_session(dead, budget) end
  end
end
-- What was known in a run that is over is forgotten, bucket by bucket.
local gone = redis.call('LINDEX', S .. ':gone', 0)
if gone then
  local of = family(S, gone)
  local buckets = 2 ^ of.level + of.split
  for number = buckets - 1, math.max(0, buckets - 200), -1 do
    redis.call('UNLINK', of.key .. ':' .. number)
  end
  if buckets <= 200 then
    redis.call('LPOP', S .. ':gone')
    redis.call('DEL', of.key)
  else
    redis.call('HSET', of.key, 'level', 0, 'split', buckets - 201)
  end
end
local mine = redis.call('SMEMBERS', P .. ':h:' .. session)
local members, fair, others_hungry = shares(S, egress, session)
local wanted = {}
for i, host in ipairs(mine) do
  local holder, generation = lease_of(egress, host)
  local is_surplus = others_hungry and #mine > 1 and i > fair
  if holder == session and (is_surplus or redis.call('HEXISTS', P .. ':a:' .. egress, host) == 1) then
    wanted[#wanted + 1] = generation
  end
end
flush()
return {members, #mine, tonumber(redis.call('HGET', S .. ':i', 'generation')) or 0, wanted, damaged, life}
