-- Begin a session of a spider; says whether a new run of its crawl begins.
-- ARGV 2=session to end first ('' for none) 3=worker 4=egress 5=spider 6=ttl ms
--      7=when the spider's visits are to be flushed (idle: nobody visits; over: nor is anything left)
-- returns {session or '' (call again: the old one is not ended yet), begins, run, run id of the server,
-- whether to flush}
local egress, n, ttl = ARGV[4], ARGV[5], tonumber(ARGV[6])
local S = spider(n)
local _, life = grace(ttl, ARGV[2] == '')
if ARGV[2] ~= '' then
  local left = end_session(ARGV[2], 2000)
  if left <= 0 then flush(); return {'', 0, 0, '', 0} end
end
local flusher = redis.call('HGET', S .. ':i', 'flusher')
if flusher and is_alive(flusher) then
  flush()
  return redis.error_reply('BUSY another worker flushes the frontier')
end
if redis.call('SADD', S .. ':e', egress) == 1 then
  -- What may be leased is the same from here.
  local other = redis.call('SRANDMEMBER', S .. ':e', 2)
  local from = other[1] == egress and other[2] or other[1]
  if from and from ~= egress then
    redis.call('ZUNIONSTORE', S .. ':r:' .. egress, 1, S .. ':r:' .. from)
    redis.call('ZUNIONSTORE', S .. ':g:' .. egress, 1, S .. ':g:' .. from)
    for _, key in ipairs({P .. ':l:' .. from, P .. ':b:' .. from}) do
      for _, host in ipairs(redis.call('HKEYS', key)) do place(n, egress, host) end
    end
    for _, host in ipairs(redis.call('ZRANGE', S .. ':z:' .. from, 0, -1)) do place(n, egress, host) end
  end
end
local lives, late = false, {}
for _, each in ipairs(egresses(n)) do
  for _, session in ipairs(redis.call('SMEMBERS', S .. ':m:' .. each)) do
    if is_alive(session) then lives = true else late[#late + 1] = session end
  end
end
local is_left = lives or count_of(n, 'ready') + count_of(n, 'leased') + redis.call('ZCARD', S .. ':d') > 0
-- Who has died while it flushed leaves the rest of that to whoever comes next.
local flushes = flusher or ARGV[7] == 'idle' and not lives or ARGV[7] == 'over' and not is_left
is_left = is_left and not flushes
if flushes then
  for _, session in ipairs(late) do redis.call('ZADD', P .. ':sessions', 'XX', 0, session) end
elseif ARGV[7] == 'over' then flush(); return {ARGV[2], 0, 0, life, 0} end
local run = tonumber(redis.call('HGET', S .. ':i', 'run')) or 0
if not is_left then
  if run > 1 then redis.call('RPUSH', S .. ':gone', 'v' .. run) end
  run = redis.call('HINCRBY', S .. ':i', 'run', 1)
end
local session = string.format('%.0f', redis.call('HINCRBY', P .. ':count', 'session', 1))
redis.call('ZADD', P .. ':sessions', now + ttl, session)
redis.call('HSET', P .. ':n:' .. session, 'worker', ARGV[3], 'egress', egress, 'spider', n, 'hungry', 0,
  'ends others', now + ttl)
redis.call('SADD', S .. ':m:' .. egress, session)
if flushes then redis.call('HSET', S .. ':i', 'flusher', session) end
flush()
return {session, is_left and 0 or 1, run, life, flushes and 1 or 0}
