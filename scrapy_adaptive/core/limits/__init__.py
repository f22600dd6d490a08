"""Known limits: rules that the user or the site's operator wrote down, and the meters that count.

Laws
----
* A rule says how much may be sent in a scope; a meter counts what was sent in it.
* A meter is no slot: it learns nothing, costs a few hundred bytes, and is forgotten once it has
  nothing left to remember.
* A known limit is an upper bound. What was learned may be less, never more.
"""
