"""Visits by host, and the right to pace a host, kept where no crash can hurt them.

Laws
----
* Nothing here knows Scrapy: a frontier holds addresses, instants and bytes.
* A visit is done together with the links it gave, or not at all.
* `protocol.py` says what every engine promises, and one suite of tests holds each of them to it;
  `opening.py` chooses the engine by the scheme of its address. `sql/` and `redis/` are the
  engines.
"""
