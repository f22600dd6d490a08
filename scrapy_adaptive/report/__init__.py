"""Shows a crawl: its journal, the model that is read from it, and the words for both.

Laws
----
* Nothing here knows Scrapy or Twisted: a journal is read where no crawl runs.
* One registry has the words for what holds a site back (`reasons`), one those for what happened
  (`events`).
* Page, table, sentences and exports are drawn from `crawl.Crawl` alone, whatever it was read from:
  a file, several files, or the records of a crawl that runs.

Map: `records` is the schema; `writer` and `reader` are the file; `crawl` the read model, `building`
makes it of records, `merging` of several runs; `why` puts it in sentences.
"""
