"""The laws of politeness, pure: facts and instants come in, instants and reasons come out.

Laws
----
* Nothing here waits, sleeps, logs, connects, reads a clock or rolls dice.
* `now` is monotonic seconds and always an argument; chance is an argument in [0, 1).
* A law knows its own numbers only; the slot composes the laws, the governor owns the slots.
"""
