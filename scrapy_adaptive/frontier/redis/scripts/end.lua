-- End a session, in bounded steps. ARGV 2=session; returns whether it is ended.
local left = end_session(ARGV[2], 2000)
flush()
return left > 0 and 1 or 0
