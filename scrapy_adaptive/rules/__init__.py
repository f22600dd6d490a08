"""Where known limits come from: the settings, a file, a SQL table.

Laws
----
* Whatever the source, a rule is written in the same words, and a bad one is named in one line.
* Nothing here decides what may be sent: `core/limits` does.
"""
