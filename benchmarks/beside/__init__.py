"""Crawls as people write them, with the add-on and without: see `benchmarks/beside_stock.py`."""
