-- After a call that failed: what this session was given and does not know of is free.
-- ARGV 2=session 3=spider 4=egress, then generation, how many, id ... of what it knows
-- returns the generations that it holds
local session, n, egress = ARGV[2], ARGV[3], ARGV[4]
if is_over(session) then return redis.error_reply('LOST session') end
local known, kept, i = {}, {}, 5
while i <= #ARGV do
  local ids = {}
  for j = i + 2, i + 1 + tonumber(ARGV[i + 1]) do ids[ARGV[j]] = true end
  known[ARGV[i]] = ids
  i = i + 2 + tonumber(ARGV[i + 1])
end
for _, host in ipairs(redis.call('SMEMBERS', P .. ':h:' .. session)) do
  local holder, generation = lease_of(egress, host)
  if holder ~= session then redis.call('SREM', P .. ':h:' .. session, host)
  elseif not known[generation] then free(egress, host, session, generation, n)
  else
    kept[#kept + 1] = generation
    local lost = {}
    for _, id in ipairs(redis.call('HKEYS', P .. ':o:' .. generation)) do
      if not known[generation][id] then lost[#lost + 1] = id end
    end
    give_back(n, host, generation, lost)
  end
end
flush()
return kept
