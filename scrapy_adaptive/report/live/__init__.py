"""The live view of a crawl: the page, fed while the crawl runs, and the same for machines.

Laws
----
* It runs in a thread and an event loop of its own, so that any reactor and none will do; the crawl
  hands it records and never waits for it.
* It only tells: no request changes anything.
* It answers nobody whom it cannot know to be the user: see `guard`.
"""
