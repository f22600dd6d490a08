-- The best visits that are due, of hosts that nobody holds or this session does.
-- ARGV 2=session 3=spider 4=egress 5=ttl ms 6=most new hosts 7=most visits 8=only this host ('' for
--      any) 9=discount 10=most visits out per host 11=one visit of so many is of who has waited longest
--      then host, generation, id ... of visits that go back first
-- returns {wait ms (-1: nothing ever is due), visits that anybody has, damaged,
--          {host, generation, is new, state or false, ms since it was saved, id, priority, record ...} ...}
local session, n, egress = ARGV[2], ARGV[3], ARGV[4]
local hosts, visits = tonumber(ARGV[6]), tonumber(ARGV[7])
local discount, per_host, share = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local S = spider(n)
local SLACK = 64 -- hosts that are looked at beyond those that are asked for

local wait_for = grace(tonumber(ARGV[5]))
if is_over(session) then return redis.error_reply('LOST session') end
if wait_for > 0 then return {0, math.max(1, count_of(n, 'leased')), damaged} end

local back = {}
for i = 12, #ARGV, 3 do
  local key = ARGV[i + 1]
  back[key] = back[key] or {host = ARGV[i], ids = {}}
  table.insert(back[key].ids, ARGV[i + 2])
end
for generation, each in pairs(back) do
  local holder, current = lease_of(egress, each.host)
  if holder == session and current == generation then give_back(n, each.host, generation, each.ids) end
end

local held, order = {}, {} -- what is answered of each host
local function answer(host, generation, is_new, state, age)
  held[host] = {host, generation, is_new, state, age}
  order[#order + 1] = host
  return held[host]
end

-- The host is this session's now: nil where it is another's, or asleep.
local function claim(host)
  if held[host] then return held[host] end
  local holder, generation = lease_of(egress, host)
  if holder == session then return answer(host, generation, 0, false, 0) end
  if holder and redis.call('ZSCORE', P .. ':sessions', holder) then return nil end
  local wake = redis.call('ZSCORE', P .. ':k:' .. egress, host)
  if wake then
    if tonumber(wake) > now then return nil end
    redis.call('ZREM', P .. ':k:' .. egress, host)
  end
  generation = string.format('%.0f', redis.call('HINCRBY', P .. ':count', 'generation', 1))
  redis.call('HSET', P .. ':l:' .. egress, host, session .. ' ' .. generation .. ' ' .. n)
  redis.call('HDEL', P .. ':a:' .. egress, host)
  redis.call('SADD', P .. ':h:' .. session, host)
  unplace(n, egress, host)
  local saved = redis.call('GET', P .. ':t:' .. egress .. ':' .. host)
  local at, state = string.match(saved or '', '^(%d+) (.*)$')
  return answer(host, generation, 1, state or false, at and math.max(0, now - tonumber(at)) or 0)
end

if ARGV[8] ~= '' then
  local host = ARGV[8]
  local found = claim(host)
  if not found and lease_of(egress, host) then redis.call('HSET', P .. ':a:' .. egress, host, 1) end
  flush()
  return {0, count_of(n, 'leased'), damaged, found}
end

-- What has become due.
local due = redis.call('ZRANGEBYSCORE', S .. ':d', '-inf', now, 'LIMIT', 0, 1000)
for i = 1, #due, CHUNK do redis.call('ZREM', S .. ':d', unpack(due, i, math.min(i + CHUNK - 1, #due))) end
for _, entry in ipairs(due) do
  local host, priority, record = string.match(entry, '^%d+\t([^\t]*)\t(%S+)\t(.*)$')
  if host and tonumber(priority) then put(n, host, priority, {record}, 'RPUSH')
  else damage(S .. ':d', 'an entry that is no visit') end
end
bump(n, 'asleep', -#due)
for _, host in ipairs(redis.call('ZRANGEBYSCORE', S .. ':z:' .. egress, '-inf', now, 'LIMIT', 0, hosts + SLACK)) do
  redis.call('ZREM', S .. ':z:' .. egress, host)
  place(n, egress, host)
end

-- Whether a host of the rank may be leased; who may not is put where he is looked for later.
local function may_lease(host)
  local holder, generation, other = lease_of(egress, host)
  if holder and not redis.call('ZSCORE', P .. ':sessions', holder) then
    free(egress, host, holder, generation, other)
    holder = nil
  end
  if holder then
    unplace(n, egress, host)
    if other ~= n then
      local blocked = redis.call('HGET', P .. ':b:' .. egress, host) or ''
      redis.call('HSET', P .. ':b:' .. egress, host, blocked .. ' ' .. n)
      redis.call('HSET', P .. ':a:' .. egress, host, 1)
    end
    return false
  end
  local wake = redis.call('ZSCORE', P .. ':k:' .. egress, host)
  if wake and tonumber(wake) > now then
    unplace(n, egress, host)
    redis.call('ZADD', S .. ':z:' .. egress, wake, host)
    return false
  end
  if not best(S, host) then unplace(n, egress, host); return false end
  return true
end
local function first_of(key, most)
  local found, examined, start = {}, 0, 0
  while #found < most and examined < most + SLACK do
    local some = redis.call('ZRANGE', key, start, start + most - #found - 1)
    if #some == 0 then break end
    for _, host in ipairs(some) do
      examined = examined + 1
      if may_lease(host) then found[#found + 1] = host; start = start + 1 end
    end
  end
  return found
end

local own = redis.call('SMEMBERS', P .. ':h:' .. session)
local _, fair, others_hungry = shares(S, egress, session)
-- What was given back for others is theirs: they ask less often than who has had it.
if others_hungry and #own > 0 and #own >= fair then hosts = 0 end
local total = 0
if share > 0 and visits >= share then
  -- One of so many is the last visit of who has waited longest: nobody starves.
  local aged = math.min(math.floor(visits / share), hosts)
  for _, host in ipairs(aged > 0 and first_of(S .. ':g:' .. egress, aged) or {}) do
    local found = claim(host)
    if found then
      own[#own + 1] = host
      hosts = hosts - 1
      local lowest = redis.call('ZRANGE', S .. ':p:' .. host, 0, 0)[1]
      if not lowest or ((tonumber(lowest) or 1) > 0 and redis.call('EXISTS', S .. ':q:0:' .. host) == 1) then lowest = '0' end
      local records = take(n, host, lowest, 1)
      give(n, found[2], lowest, records, found)
      total = total + #records
    end
  end
end

-- Each host's best visit against those of the others; each further one of a host counts less.
local heap = {}
local function before(one, other)
  if one.rank ~= other.rank then return one.rank > other.rank end
  return one.number < other.number
end
local function push(each)
  local i = #heap + 1
  heap[i] = each
  while i > 1 do
    local up = math.floor(i / 2)
    if not before(heap[i], heap[up]) then return end
    heap[i], heap[up] = heap[up], heap[i]
    i = up
  end
end
local function pop()
  local top, last = heap[1], table.remove(heap)
  if #heap == 0 then return top end
  heap[1] = last
  local i = 1
  while true do
    local down = 2 * i
    if down > #heap then return top end
    if down < #heap and before(heap[down + 1], heap[down]) then down = down + 1 end
    if not before(heap[down], heap[i]) then return top end
    heap[i], heap[down] = heap[down], heap[i]
    i = down
  end
end

-- The next priority of a host's visits, and how many there are.
local function next_lane(each)
  while each.at < #each.priorities do
    each.at = each.at + 1
    local priority = each.priorities[each.at]
    each.left = tonumber(priority) and redis.call('LLEN', S .. ':q:' .. priority .. ':' .. each.host) or 0
    if each.left > 0 then return true end
    redis.call('ZREM', S .. ':p:' .. each.host, priority)
  end
  return false
end
local function rank_up(each)
  if each.depth >= per_host then return end
  if each.left == 0 and not next_lane(each) then return end
  each.rank = tonumber(each.priorities[each.at]) - discount * each.depth
  push(each)
end
local function out_of(host)
  local count = 0
  for _, e in ipairs(egresses(n)) do
    local _, generation, holder = lease_of(e, host)
    if holder == n then count = count + redis.call('HLEN', P .. ':o:' .. generation) end
  end
  return count
end
local function priorities_of(host, most)
  local found = redis.call('ZREVRANGE', S .. ':p:' .. host, 0, most - 1)
  if redis.call('EXISTS', S .. ':q:0:' .. host) == 1 then
    local i = 1
    while found[i] and (tonumber(found[i]) or 1) > 0 do i = i + 1 end
    table.insert(found, i, '0')
  end
  return found
end
local several = #egresses(n) > 1
local candidates = {}
local function enter(host, is_own)
  local depth = (is_own or several) and out_of(host) or 0
  local most = math.min(visits - total, per_host - depth)
  if most <= 0 then return end
  local each = {
    host = host, is_own = is_own, depth = depth, number = #candidates, at = 0, left = 0,
    priorities = priorities_of(host, most), counts = {},
  }
  candidates[#candidates + 1] = each
  rank_up(each)
end
if visits > total then
  for _, host in ipairs(own) do enter(host, true) end
  local most = math.min(hosts, visits - total)
  for _, host in ipairs(most > 0 and first_of(S .. ':r:' .. egress, most) or {}) do enter(host, false) end
end
while total < visits and #heap > 0 do
  local each = pop()
  local priority = each.priorities[each.at]
  each.counts[priority] = (each.counts[priority] or 0) + 1
  each.left, each.depth, total = each.left - 1, each.depth + 1, total + 1
  rank_up(each)
end
for _, each in ipairs(candidates) do
  if next(each.counts) then
    local found = claim(each.host)
    for _, priority in ipairs(found and each.priorities or {}) do
      local count = each.counts[priority]
      if count then give(n, found[2], priority, take(n, each.host, priority, count), found) end
    end
  end
end

-- When anything is due, where nothing was.
local function is_elsewhere()
  local left = 2000
  for _, each in ipairs(redis.call('ZRANGE', P .. ':sessions', 0, -1)) do
    if redis.call('HGET', P .. ':n:' .. each, 'egress') == egress then
      for _, host in ipairs(redis.call('SMEMBERS', P .. ':h:' .. each)) do
        left = left - 1
        if left < 0 or best(S, host) then return true end
      end
    end
  end
  return false
end
local wait = 0
if total == 0 then
  local some = count_of(n, 'ready') > 0
  if not (some and (redis.call('ZCARD', S .. ':r:' .. egress) > 0 or is_elsewhere())) then
    wait = -1
    for _, key in ipairs({S .. ':d', S .. ':z:' .. egress}) do
      local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
      if first and (wait < 0 or tonumber(first) - now < wait) then wait = math.max(0, tonumber(first) - now) end
    end
  end
end
flush()
local out = {wait, count_of(n, 'leased'), damaged}
for _, host in ipairs(order) do out[#out + 1] = held[host] end
return out
