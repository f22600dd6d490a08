-- Take seeds from a list, a set or a sorted set; they go back there if the session ends before they
-- are written down (see the end of turn.lua).
-- KEYS 2=where they are; ARGV 2=session 3=how many; returns {damaged, id, data ...}
local session, key, most = ARGV[2], KEYS[2], tonumber(ARGV[3])
if is_over(session) then return redis.error_reply('LOST session') end
local kind = redis.call('TYPE', key).ok
local got, how, scores = {}, nil, nil
if kind == 'list' then
  how, got = 'LIST', redis.call('LPOP', key, most) or {}
elseif kind == 'set' then
  how, got = 'SET', redis.call('SPOP', key, most)
elseif kind == 'zset' then
  how, scores = 'ZSET', {}
  local pairs_of = redis.call('ZPOPMAX', key, most)
  for i = 1, #pairs_of, 2 do
    got[#got + 1] = pairs_of[i]
    scores[#got] = pairs_of[i + 1]
  end
elseif kind ~= 'none' then
  redis.call('RENAME', key, P .. ':damaged:' .. key)
  damage(key, 'a ' .. kind .. ' holds no seeds')
end
local out = {damaged}
for i, data in ipairs(got) do
  if #data > MOST_RECORD then damage(key, 'a seed of ' .. #data .. ' bytes')
  else
    local id = string.format('%.0f', redis.call('HINCRBY', P .. ':count', 'visit', 1))
    local kept = scores and (scores[i] .. ' ' .. data) or data
    redis.call('HSET', P .. ':s:' .. session, id, how .. ' ' .. #key .. ' ' .. key .. kept)
    out[#out + 1] = id
    out[#out + 1] = data
  end
end
return out
