-- Hosts that have visits may be leased: after a rank was set aside. ARGV 2=spider, then hosts.
for i = 3, #ARGV do
  for _, egress in ipairs(egresses(ARGV[2])) do place(ARGV[2], egress, ARGV[i]) end
end
return #ARGV - 2
