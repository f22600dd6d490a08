-- Give a host back, with what was learned of it and what was not fetched.
-- ARGV 2=session 3=spider 4=egress 5=host 6=generation 7=state ('' for none) 8=ms for which nobody
--      takes it 9=ms for which what was learned is kept
local session, n, egress, host = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local holder, generation = lease_of(egress, host)
if holder ~= session or generation ~= ARGV[6] then return 0 end
if ARGV[7] ~= '' then
  redis.call('SET', P .. ':t:' .. egress .. ':' .. host, string.format('%.0f ', now) .. ARGV[7], 'PX', ARGV[9])
end
local asleep = tonumber(ARGV[8])
free(egress, host, session, generation, n, asleep > 0 and now + asleep or nil)
flush()
return 1
