"""What puts a frontier into a Scrapy crawl, by public API: a spider middleware and signals.

Laws
----
* Nothing of this is imported, and no page costs more, without ADAPTIVE_FRONTIER.
* The event loop never waits for the database: one courier thread does.
* The host queue is the local buffer of what was given out.
"""
