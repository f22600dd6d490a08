"""A spider for the HTML that pydoc writes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy.http import HtmlResponse, Request, Response
from scrapy.linkextractors import LinkExtractor

from pydocs.items import ModulePage

TITLE = re.compile(r"Python: (?:built-in )?(?:module|package) (\S+)")
BLANK_LINE = re.compile(r"\n\s*\n")


class PagesSpider(scrapy.Spider):
    """Follows the links of one site of pydoc pages, from its index.

    ``scrapy crawl pages -a url=http://127.0.0.1:8080/``. Only that host is visited.
    """

    name = "pages"

    def __init__(self, url: str = "http://127.0.0.1:8080/", **arguments: Any) -> None:
        super().__init__(**arguments)
        self.url = url
        self.allowed_domains = [urlsplit(url).hostname or ""]
        self.links = LinkExtractor()

    async def start(self) -> AsyncIterator[Request]:
        """The index, through the duplicate filter: every page leads back to it."""
        yield Request(self.url)

    def parse(self, response: Response, **_: Any) -> Iterator[ModulePage | Request]:
        """An item for a module's page, and a request for every link (Scrapy asks each once)."""
        if not isinstance(response, HtmlResponse):
            return
        title = TITLE.match(response.css("title::text").get(""))
        if title:
            yield self.page(response, title[1])
        yield from response.follow_all(self.links.extract_links(response))

    def page(self, response: HtmlResponse, module: str) -> ModulePage:
        """The item of one page. The text's first paragraph is the summary; a class is an anchor
        that says so, a function of the module an anchor whose name begins with a dash."""
        text = "".join(response.xpath("(//p)[1]/*[self::span or self::tt]//text()").getall())
        hrefs = response.css("a::attr(href)").re(r"^([\w.]+)\.html")
        return ModulePage(
            url=response.url,
            module=module,
            summary=BLANK_LINE.split(text.replace("\xa0", " "))[0],
            class_count=len(response.xpath('//a[@name][starts-with(., "class ")]')),
            function_count=len(response.xpath('//a[starts-with(@name, "-")]')),
            links=hrefs,
        )
