"""Scrapy's own tests, with the add-on switched on: `make test-scrapy`."""
