"""Settings that do what the add-on does."""

EXTENSIONS = {"scrapy_adaptive.AdaptiveThrottle": 0}
DOWNLOADER_MIDDLEWARES = {
    "scrapy_adaptive.AdaptiveGate": 950,
    "scrapy_adaptive.AdaptiveRefusals": 585,
}
SCHEDULER_PRIORITY_QUEUE = "scrapy_adaptive.HostQueue"
