"""One site, in a process of its own: says its port, serves, and writes down its hits.

It ends when its standard input does, so that it never outlives who started it, and then writes
`hits.jsonl` into its folder: a hit a line as start, end (seconds of the wall clock), status, path
and whether it was a hit in a ban.

    python -m benchmarks.crawls.serve KIND --folder F --seconds S [--nice N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

from benchmarks.crawls.measure import Hit
from benchmarks.crawls.sites import FILES, IN_FLIGHT, KINDS, UPSTREAMS, Kind
from tests.servers.nginx import Fragment, Nginx, limit_conn, limit_req

PAGE = "<!doctype html><title>A page</title>" + "<p>Some words of a small page.</p>\n" * 40

CONFIGURATIONS = {
    "limit_req-429": limit_req("50r/s", 20),
    "limit_req-503": limit_req("50r/s", 20, status=503),
    "limit_req-delay": limit_req("50r/s", 20, nodelay=False),
    "limit_conn": limit_conn(IN_FLIGHT, status=429),
    "limit_conn-slow": limit_conn(IN_FLIGHT, status=429),
}


class Served:
    """A site of aiohttp."""

    def __init__(self, kind: Kind, seconds: float) -> None:
        assert kind.rule is not None
        self._rule = kind.rule(seconds)
        self._service = kind.service
        self._workers = asyncio.Semaphore(kind.workers) if kind.workers else None
        self.hits: list[Hit] = []

    async def serve(self, request: web.BaseRequest) -> web.Response:
        """Judge on arrival, answer after the service."""
        start = time.time()
        verdict = self._rule.hit(time.monotonic())
        async with self._workers or contextlib.nullcontext():
            await asyncio.sleep(self._service)
        status = 200 if verdict.served else 429
        self.hits.append(Hit(start, time.time(), status, request.path_qs, verdict.banned))
        return web.Response(
            status=status,
            text=PAGE if verdict.served else "refused",
            content_type="text/html",
            headers=dict(verdict.headers),
        )

    async def run(self) -> None:
        """Serve until the standard input ends."""
        runner = web.ServerRunner(web.Server(self.serve, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=511).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()


@contextmanager
def upstream(kind: Kind, folder: Path, seconds: float) -> Iterator[int]:
    """The site behind nginx; its port."""
    from benchmarks.crawls.processes import Site

    site = Site(UPSTREAMS[kind.name].name, folder, seconds)
    try:
        yield site.port
    finally:
        site.stop()


def serve_nginx(kind: Kind, folder: Path, seconds: float) -> list[Hit]:
    """Serve until the standard input ends."""
    with contextlib.ExitStack() as stack:
        fragments = [CONFIGURATIONS[kind.name]]
        if kind.is_measured:
            port = stack.enter_context(upstream(kind, folder / "upstream", seconds))
            fragments.append(Fragment(location=f"proxy_pass http://127.0.0.1:{port};"))
        site = stack.enter_context(Nginx(folder, *fragments, pages=FILES))
        for file in (site.files / "page").iterdir():
            file.write_text(PAGE)
        print(site.port, flush=True)
        sys.stdin.read()
    return [Hit(hit.start, hit.end, hit.status, hit.path) for hit in site.hits()]


def main() -> None:
    """Serve one kind of site."""
    parser = argparse.ArgumentParser()
    kinds = {kind.name: kind for kind in (*KINDS, *UPSTREAMS.values())}
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--nice", type=int, default=0)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(arguments.nice)
    kind = kinds[arguments.kind]
    if kind.rule is None:
        hits = serve_nginx(kind, arguments.folder, arguments.seconds)
    else:
        site = Served(kind, arguments.seconds)
        asyncio.run(site.run())
        hits = site.hits
    with (arguments.folder / "hits.jsonl").open("w") as log:
        log.writelines(f"{json.dumps(hit)}\n" for hit in sorted(hits))


if __name__ == "__main__":
    main()
