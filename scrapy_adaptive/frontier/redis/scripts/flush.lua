-- Forget keys of a spider, step by step; nobody else begins before the last step, which has none.
-- ARGV 2=session 3=spider 4=ttl ms, then keys ...
local session, S = ARGV[2], spider(ARGV[3])
if redis.call('HGET', S .. ':i', 'flusher') ~= session or is_over(session) then return redis.error_reply('LOST session') end
redis.call('ZADD', P .. ':sessions', now + tonumber(ARGV[4]), session)
if #ARGV == 4 then
  redis.call('HDEL', S .. ':i', 'flusher', 'ready', 'asleep', 'leased', 'finished', 'failed')
else redis.call('UNLINK', unpack(ARGV, 5)) end
return #ARGV - 4
