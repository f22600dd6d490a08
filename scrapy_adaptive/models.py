"""Models of servers for `scrapy_adaptive.simulate`: limits, faults, and how long pages take.

Each is a `Server`; many take another server, which they change or combine. A rate is a number, or a
function of the seconds since the crawl began, as `stepped` and `waving` make one.
A number that makes no sense raises ValueError, which says what is allowed.
"""

from __future__ import annotations

from scrapy_adaptive.simulation.servers.bans import BanServer, WhileBanned
from scrapy_adaptive.simulation.servers.combined import (
    ClassesServer,
    FailingServer,
    FirstVisitServer,
    Gate,
    HiddenBackendServer,
    NestedServer,
)
from scrapy_adaptive.simulation.servers.faults import (
    DeadPagesServer,
    ErrorServer,
    NoisyServer,
    SilentServer,
)
from scrapy_adaptive.simulation.servers.occupancy import CapServer, FreeServer, QueueServer
from scrapy_adaptive.simulation.servers.rates import allowed, constant, stepped, vanishing, waving
from scrapy_adaptive.simulation.servers.service import (
    SERVICES,
    PlacesServer,
    Service,
    SlowServer,
    WorkersServer,
    service,
)
from scrapy_adaptive.simulation.servers.telling import LIES, TellingServer, truth
from scrapy_adaptive.simulation.servers.token_bucket import BucketServer, EndpointServer
from scrapy_adaptive.simulation.servers.windows import (
    CounterServer,
    LastHitServer,
    LogServer,
    WindowServer,
)

__all__ = [
    "LIES",
    "SERVICES",
    "BanServer",
    "BucketServer",
    "CapServer",
    "ClassesServer",
    "CounterServer",
    "DeadPagesServer",
    "EndpointServer",
    "ErrorServer",
    "FailingServer",
    "FirstVisitServer",
    "FreeServer",
    "Gate",
    "HiddenBackendServer",
    "LastHitServer",
    "LogServer",
    "NestedServer",
    "NoisyServer",
    "PlacesServer",
    "QueueServer",
    "Service",
    "SilentServer",
    "SlowServer",
    "TellingServer",
    "WhileBanned",
    "WindowServer",
    "WorkersServer",
    "allowed",
    "constant",
    "service",
    "stepped",
    "truth",
    "vanishing",
    "waving",
]
