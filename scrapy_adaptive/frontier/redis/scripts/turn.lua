-- What was found, what is done, and what comes next, at once.
-- ARGV 2=session 3=spider 4=egress 5=ttl ms 6=run
--      7=number of visits that are done, then generation, id, how (f: finished, e: failed, or the ms
--        after which it comes again), its record, a fingerprint that gave items ('' for none), host,
--        priority ...
--      number of groups of links, then in one "host priority ms-until-due how-many", then
--        of each whether again (0 never, 1 unless it gave, 2 always) with the fingerprint (nothing
--        for none), a space, and the record ...
--      number of refills, then host, generation, how many ...
--      then ids of seeds that are written down by this
-- returns {added, damaged, {generation, id, priority, record ...} or {generation, false} ...}
local session, n, egress, run = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6])
local S = spider(n)
local i = 7
local function arg()
  i = i + 1
  return ARGV[i - 1]
end
grace(tonumber(ARGV[5]))
if egress ~= '' then redis.call('SADD', S .. ':e', egress) end

local function later(host, priority, record, ms)
  local id = redis.call('HINCRBY', P .. ':count', 'visit', 1)
  local entry = string.format('%.0f\t', id) .. host .. '\t' .. priority .. '\t' .. record
  redis.call('ZADD', S .. ':d', now + ms, entry)
  bump(n, 'asleep', 1)
end

local done_at, done_count = i + 1, tonumber(ARGV[i])
i = i + 1 + 7 * done_count

local gave = nil
local function finish(generation, id, how, record, fingerprint, host, priority)
  if redis.call('HDEL', P .. ':o:' .. generation, id) == 1 then
    bump(n, 'leased', -1)
    if how == 'f' then bump(n, 'finished', 1)
    elseif how == 'e' then
      bump(n, 'failed', 1)
      redis.call('RPUSH', S .. ':f', host .. '\t' .. priority .. '\t' .. record)
      redis.call('LTRIM', S .. ':f', -100000, -1)
    else later(host, priority, record, tonumber(how)) end
    if fingerprint ~= '' then
      gave = gave or family(S, 'y')
      learn(gave, fingerprint)
    end
  end
end

local known, this_run = family(S, 'u'), nil
if run > 1 then this_run = family(S, 'v' .. run) end
-- Whether a link is to be visited: it is new, or may be visited again in a new run.
local function is_wanted(link)
  if link == '' then return true end
  local again, fingerprint = string.sub(link, 1, 1), string.sub(link, 2)
  if learn(known, fingerprint) then
    if this_run then learn(this_run, fingerprint) end
    return true
  end
  if again == '0' or not this_run or knows(this_run, fingerprint) then return false end
  if again == '1' then
    gave = gave or family(S, 'y')
    if knows(gave, fingerprint) then return false end
  end
  learn(this_run, fingerprint)
  bump(n, 'finished', -1)
  return true
end
local added = 0
for _ = 1, tonumber(arg()) do
  local host, priority, delay, count = string.match(arg(), '^(.*) (%S+) (%d+) (%d+)$')
  delay, count = tonumber(delay), tonumber(count)
  local records = {}
  for _ = 1, count do
    local each = arg()
    local space = string.find(each, ' ', 1, true)
    local link, record = string.sub(each, 1, space - 1), string.sub(each, space + 1)
    if is_wanted(link) then records[#records + 1] = record end
  end
  added = added + #records
  if delay > 0 then
    redis.call('PFADD', S .. ':x', host)
    for _, record in ipairs(records) do later(host, priority, record, delay) end
  elseif #records > 0 then put(n, host, priority, records, 'RPUSH') end
end
for j = done_at, done_at + 7 * done_count - 1, 7 do finish(unpack(ARGV, j, j + 6)) end
save(known)
if this_run then save(this_run) end
if gave then save(gave) end

local out = {added, damaged}
local alive = not is_over(session)
for _ = 1, tonumber(arg()) do
  local host, generation, most = arg(), arg(), tonumber(arg())
  local holder, current = lease_of(egress, host)
  local given = {generation, false}
  if alive and holder == session and current == generation then
    given = {generation}
    refill(n, host, generation, most, given)
  end
  out[#out + 1] = given
end
while i <= #ARGV do redis.call('HDEL', P .. ':s:' .. session, arg()) end
flush()
return out
