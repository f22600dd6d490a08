-- What all scripts of the frontier share: it stands before each of them.
--
-- Laws
-- ----
-- * Every key begins with KEYS[1], which holds the one hash tag of the frontier.
-- * A host with visits is in the rank of each egress for which it is not leased, or asleep there, or
--   blocked there by another spider's lease. What is leased is in no rank.
-- * A script may end in the midst where a key holds something else than it should: what must not
--   be lost is written before what may be forgotten, and the call is repeated.
-- * Work is bounded by what was asked for: visits, links, hosts of one session.
--
-- Keys, P being KEYS[1], N the number of a spider, E an egress:
--   P:boot        hash    run id of the server, until when nobody leases, longest lease
--   P:count       hash    the last session, generation, visit and spider
--   P:spiders     hash    name -> number
--   P:sessions    zset    session -> instant until which it lives without a word; 0: it was ended
--   P:n:SESSION   hash    worker, egress, spider, hungry, from when it ends others
--   P:h:SESSION   set     hosts that it holds
--   P:s:SESSION   hash    seeds that it has taken and not written down: id -> how, key, data
--   P:l:E         hash    host -> session, generation, spider
--   P:a:E         hash    hosts that others ask their holder for
--   P:b:E         hash    host -> spiders that are blocked by its lease
--   P:k:E         zset    host -> instant before which nobody takes it
--   P:t:E:HOST    string  what was learned of it, with the instant
--   P:o:GEN       hash    visits that are given out under a generation: id -> priority, record
--   P:N:i         hash    the spider: counts, run, generation, its own state, the session that flushes
--   P:N:e         set     egresses
--   P:N:m:E       set     sessions
--   P:N:r:E       zset    hosts by their best visit: what may be leased
--   P:N:g:E       zset    the same hosts by how long they have waited
--   P:N:z:E       zset    hosts that sleep, by the instant at which they wake
--   P:N:q:PR:HOST list    visits of one priority
--   P:N:p:HOST    zset    priorities other than 0 of which there are visits
--   P:N:w:HOST    list    visits that `swap` gives another priority
--   P:N:d         zset    visits that are not due yet, by their instant
--   P:N:f         list    visits that have failed
--   P:N:x         string  about how many hosts there were
--   P:N:u:BUCKET  set     fingerprints that are known, as integers
--   P:N:vRUN:…    set     those that were added in that run, from the second on
--   P:N:y:BUCKET  set     those of pages that gave items, where that matters
local P = KEYS[1]
local MOST_RECORD = 1000000 -- bytes of a visit; what is longer is set aside
local CHUNK = 1000 -- values that one command is given
local LOAD = 160 -- fingerprints of a bucket: Redis keeps up to 512 integers in one compact block

local function now_ms()
  if ARGV[1] ~= '' then return tonumber(ARGV[1]) end
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local now = now_ms()

local function spider(n) return P .. ':' .. n end

-- What was set aside because nobody can read it; told with the answer.
local damaged = {}
local function damage(where, what)
  if #damaged < 20 then damaged[#damaged + 1] = where .. ': ' .. what end
end

-- Counts are written at the end, once.
local deltas = {}
local function bump(n, field, delta)
  local key = n .. ' ' .. field
  deltas[key] = (deltas[key] or 0) + delta
end
local function flush()
  for key, delta in pairs(deltas) do
    local n, field = string.match(key, '^(%S+) (%S+)$')
    if delta ~= 0 then
      local told = redis.pcall('HINCRBY', spider(n) .. ':i', field, delta)
      if type(told) == 'table' and told.err then
        redis.call('HSET', spider(n) .. ':i', field, delta)
        damage(spider(n) .. ':i', field .. ' is no number')
      end
    end
  end
  deltas = {}
end
local function count_of(n, field)
  return (tonumber(redis.call('HGET', spider(n) .. ':i', field)) or 0) + (deltas[n .. ' ' .. field] or 0)
end

-- Another life of the server: what the last seconds gave out may be forgotten. Numbers go on far
-- beyond it, and nobody leases before all old leases have run out. Returns for how long, and the run
-- id.
-- A server that knows no run may have forgotten everything: numbers begin where none has been, and
-- unless this is a worker's first call, somebody may hold hosts yet.
local function grace(ttl, is_first)
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or 'none'
  local boot = redis.call('HMGET', P .. ':boot', 'run', 'grace', 'ttl')
  local longest = math.max(tonumber(boot[3]) or 0, ttl)
  local until_ms = math.min(tonumber(boot[2]) or 0, now + longest)
  if not boot[1] then
    for _, name in ipairs({'generation', 'visit', 'session'}) do
      redis.call('HINCRBY', P .. ':count', name, string.format('%.0f', now * 100))
    end
    if not is_first then until_ms = now + longest end
  end
  if boot[1] and boot[1] ~= run then
    until_ms = now + longest
    redis.call('HINCRBY', P .. ':count', 'generation', 1000000)
    redis.call('HINCRBY', P .. ':count', 'visit', 1000000)
    redis.call('HINCRBY', P .. ':count', 'session', 1000)
  end
  if boot[1] ~= run or longest > (tonumber(boot[3]) or 0) then
    redis.call('HSET', P .. ':boot', 'run', run, 'grace', until_ms, 'ttl', longest)
  end
  return math.max(0, until_ms - now), run
end

-- Until when a session lives without a word; 0 where it was ended.
local function deadline_of(session)
  return tonumber(redis.call('ZSCORE', P .. ':sessions', session)) or 0
end
local function is_alive(session) return deadline_of(session) >= now end

-- Of the spider's sessions with this egress: how many live, how many hosts are the fair share of each,
-- and whether another one that holds fewer wants more.
local function shares(S, egress, session)
  local held, total, members = {}, 0, 0
  for _, each in ipairs(redis.call('SMEMBERS', S .. ':m:' .. egress)) do
    if is_alive(each) then
      held[each] = redis.call('SCARD', P .. ':h:' .. each)
      members, total = members + 1, total + held[each]
    end
  end
  local fair, others_hungry = math.ceil(total / math.max(1, members)), false
  for each, count in pairs(held) do
    local is_hungry = redis.call('HGET', P .. ':n:' .. each, 'hungry') == '1'
    if each ~= session and is_hungry and count < math.max(1, fair) then others_hungry = true end
  end
  return members, fair, others_hungry
end
local function is_over(session) return deadline_of(session) == 0 end

-- A lease as session, generation and spider; nothing where the host is free.
local function lease_of(egress, host)
  local held = redis.call('HGET', P .. ':l:' .. egress, host)
  if not held then return nil end
  return string.match(held, '^(%d+) (%d+) (%d+)$')
end

local egresses_of = {}
local function egresses(n)
  if not egresses_of[n] then egresses_of[n] = redis.call('SMEMBERS', spider(n) .. ':e') end
  return egresses_of[n]
end

-- The highest priority of which a host has visits, as text; nil where it has none.
local function best(S, host)
  local top = redis.call('ZREVRANGE', S .. ':p:' .. host, 0, 0)[1]
  if top and not tonumber(top) then
    redis.call('ZREM', S .. ':p:' .. host, top)
    damage(S .. ':p', 'a priority that is no number')
    top = nil
  end
  if top and tonumber(top) > 0 then return top end
  if redis.call('EXISTS', S .. ':q:0:' .. host) == 1 then return '0' end
  return top
end

-- A host's place in a rank: by priority, and among equals by who came first.
local function score(priority) return now * 1e-16 - tonumber(priority) end

-- A host that has visits, and whose lease was given back, may be leased.
local function place(n, egress, host)
  local S = spider(n)
  local priority = best(S, host)
  if not priority then return end
  local _, _, holder = lease_of(egress, host)
  if holder == n then return end
  redis.call('ZADD', S .. ':r:' .. egress, score(priority), host)
  redis.call('ZADD', S .. ':g:' .. egress, 'NX', now, host)
end

local function unplace(n, egress, host)
  redis.call('ZREM', spider(n) .. ':r:' .. egress, host)
  redis.call('ZREM', spider(n) .. ':g:' .. egress, host)
end

-- Records go to the end of a host's visits of that priority, or to the front.
local function put(n, host, priority, records, side)
  local S = spider(n)
  local key = S .. ':q:' .. priority .. ':' .. host
  local length = 0
  for i = 1, #records, CHUNK do
    length = redis.call(side, key, unpack(records, i, math.min(i + CHUNK - 1, #records)))
  end
  bump(n, 'ready', #records)
  if length > #records then return end
  if priority ~= '0' then redis.call('ZADD', S .. ':p:' .. host, priority, priority) end
  if side == 'RPUSH' then redis.call('PFADD', S .. ':x', host) end
  for _, egress in ipairs(egresses(n)) do
    local _, _, holder = lease_of(egress, host)
    if holder ~= n then
      redis.call('ZADD', S .. ':r:' .. egress, 'LT', score(priority), host)
      redis.call('ZADD', S .. ':g:' .. egress, 'NX', now, host)
    end
  end
end

-- Up to so many records of one priority.
local function take(n, host, priority, most)
  local S = spider(n)
  local key = S .. ':q:' .. priority .. ':' .. host
  local got = redis.call('LPOP', key, most) or {}
  if #got < most and priority ~= '0' then redis.call('ZREM', S .. ':p:' .. host, priority) end
  bump(n, 'ready', -#got)
  local good = {}
  for _, record in ipairs(got) do
    if #record <= MOST_RECORD then good[#good + 1] = record
    else damage(key, 'a visit of ' .. #record .. ' bytes') end
  end
  return good
end

-- Records are given out under a generation; appends id, priority, record to `out`.
local function give(n, generation, priority, records, out)
  if #records == 0 then return end
  local last = redis.call('HINCRBY', P .. ':count', 'visit', #records)
  local fields = {}
  for i, record in ipairs(records) do
    local id = string.format('%.0f', last - #records + i)
    fields[#fields + 1] = id
    fields[#fields + 1] = priority .. ' ' .. record
    out[#out + 1] = id
    out[#out + 1] = priority
    out[#out + 1] = record
    if #fields >= CHUNK or i == #records then
      redis.call('HSET', P .. ':o:' .. generation, unpack(fields))
      fields = {}
    end
  end
  bump(n, 'leased', #records)
end

-- The next visits of a host that is held.
local function refill(n, host, generation, most, out)
  while most > 0 do
    local priority = best(spider(n), host)
    if not priority then return end
    local records = take(n, host, priority, most)
    give(n, generation, priority, records, out)
    most = most - math.max(1, #records)
  end
end

-- Visits that were given out go back to where they were; all of them, or these.
local function give_back(n, host, generation, ids)
  local key = P .. ':o:' .. generation
  local entries = {}
  if ids then
    for i = 1, #ids, CHUNK do
      local part = {unpack(ids, i, math.min(i + CHUNK - 1, #ids))}
      for j, value in ipairs(redis.call('HMGET', key, unpack(part))) do
        if value then entries[#entries + 1] = {part[j], value} end
      end
    end
  else
    local all = redis.call('HGETALL', key)
    for i = 1, #all, 2 do entries[#entries + 1] = {all[i], all[i + 1]} end
  end
  table.sort(entries, function(one, other) return (tonumber(one[1]) or 0) > (tonumber(other[1]) or 0) end)
  local lanes, order = {}, {}
  for _, entry in ipairs(entries) do
    redis.call('HDEL', key, entry[1])
    local priority, record = string.match(entry[2], '^(%S+) (.*)$')
    if priority and tonumber(priority) then
      if not lanes[priority] then lanes[priority] = {}; order[#order + 1] = priority end
      table.insert(lanes[priority], record)
    else damage(key, 'an entry that is no visit') end
  end
  bump(n, 'leased', -#entries)
  for _, priority in ipairs(order) do put(n, host, priority, lanes[priority], 'LPUSH') end
  return #entries
end

-- A lease ends: the host may be leased again, now or at an instant.
local function free(egress, host, session, generation, n, wake)
  redis.call('HDEL', P .. ':l:' .. egress, host)
  redis.call('HDEL', P .. ':a:' .. egress, host)
  redis.call('SREM', P .. ':h:' .. session, host)
  local count = give_back(n, host, generation)
  redis.call('DEL', P .. ':o:' .. generation)
  if wake and wake > now then redis.call('ZADD', P .. ':k:' .. egress, wake, host) end
  place(n, egress, host)
  local blocked = redis.call('HGET', P .. ':b:' .. egress, host)
  if blocked then
    redis.call('HDEL', P .. ':b:' .. egress, host)
    for other in string.gmatch(blocked, '%d+') do place(other, egress, host) end
  end
  return count
end

-- Who has died, or wants to end, gives back up to so many hosts and visits; returns what is left.
local function end_session(session, budget)
  redis.call('ZADD', P .. ':sessions', 'XX', 0, session)
  local own = redis.call('HMGET', P .. ':n:' .. session, 'egress', 'spider')
  local held = P .. ':h:' .. session
  for _, host in ipairs(redis.call('SRANDMEMBER', held, math.max(1, budget))) do
    if budget <= 0 then return budget end
    local holder, generation, n = lease_of(own[1] or '', host)
    if holder == session then budget = budget - free(own[1], host, session, generation, n)
    else redis.call('SREM', held, host) end
    budget = budget - 1
  end
  local seeds = redis.call('HGETALL', P .. ':s:' .. session)
  for i = 1, #seeds, 2 do
    local how, size, rest = string.match(seeds[i + 1], '^(%u+) (%d+) (.*)$')
    if how then
      local key, data = string.sub(rest, 1, tonumber(size)), string.sub(rest, tonumber(size) + 1)
      local score, value = '0', data
      if how == 'ZSET' then score, value = string.match(data, '^(%S+) (.*)$') end
      local kind = redis.call('TYPE', key)['ok'] -- it may be made anew, as another kind
      if kind == 'none' then kind = string.lower(how) end
      if kind == 'list' then redis.call('LPUSH', key, value)
      elseif kind == 'set' then redis.call('SADD', key, value)
      elseif kind == 'zset' then redis.call('ZADD', key, score, value)
      else damage(key, 'it holds no seeds any more') end
    end
  end
  redis.call('DEL', P .. ':s:' .. session, P .. ':n:' .. session)
  redis.call('ZREM', P .. ':sessions', session)
  if own[2] then redis.call('SREM', spider(own[2]) .. ':m:' .. (own[1] or ''), session) end
  return budget
end

-- A set of fingerprints that grows bucket by bucket (linear hashing).
local function family(S, name)
  local m = redis.call('HMGET', S .. ':' .. name, 'level', 'split', 'count')
  return {
    key = S .. ':' .. name, level = tonumber(m[1]) or 0, split = tonumber(m[2]) or 0,
    count = tonumber(m[3]) or 0, had = tonumber(m[3]) or 0,
  }
end
local function bucket(of, fingerprint)
  local hash = tonumber(string.sub(fingerprint, -9))
  local number = hash % 2 ^ of.level
  if number < of.split then number = hash % 2 ^ (of.level + 1) end
  return of.key .. ':' .. number
end
local function knows(of, fingerprint)
  return redis.call('SISMEMBER', bucket(of, fingerprint), fingerprint) == 1
end
local function learn(of, fingerprint)
  if redis.call('SADD', bucket(of, fingerprint), fingerprint) == 0 then return false end
  of.count = of.count + 1
  return true
end
local function save(of)
  if of.count == of.had then return end
  while of.count > LOAD * (2 ^ of.level + of.split) do
    local from = of.key .. ':' .. of.split
    local to = of.key .. ':' .. (of.split + 2 ^ of.level)
    local moved = {}
    for _, member in ipairs(redis.call('SMEMBERS', from)) do
      local hash = tonumber(string.sub(member, -9))
      if hash and hash % 2 ^ (of.level + 1) ~= of.split then moved[#moved + 1] = member end
    end
    for i = 1, #moved, CHUNK do
      local last = math.min(i + CHUNK - 1, #moved)
      redis.call('SADD', to, unpack(moved, i, last))
      redis.call('SREM', from, unpack(moved, i, last))
    end
    of.split = of.split + 1
    if of.split == 2 ^ of.level then of.level, of.split = of.level + 1, 0 end
  end
  redis.call('HSET', of.key, 'level', of.level, 'split', of.split, 'count', of.count)
end
