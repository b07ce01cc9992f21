"""Measures the rate of link redirects, compared with the framework's plain redirect and with nginx.

Penstock answers a desktop browser's `GET /l/{slug}` for a link with a fallback URL: it finds the
link, parses the User-Agent and stores a click. The bare server is Litestar with a plain handler and
the same uvicorn settings; nginx has `return 302` and one worker. The servers take turns and get the
same requests from `wrk`.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.intake import Load
from bench.model import Bench, Cell, Column, Plot, Table
from bench.service import (
    create,
    free_port,
    penstock,
    plain_server,
    process,
    responds,
    signed_in,
    wait_for,
)
from bench.timing import wait_until_idle

CONNECTIONS = 64
_AGENT = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/137.0.0.0 Safari/537.36 Edg/137.0.0.0"
)
_WEB = "https://www.example.com/offers/1"
NGINX, BARE, OURS = "nginx, `return 302`", "plain redirect", "a managed link, with its click stored"

BARE_APP = """
import sys, uvicorn
from litestar import Litestar, get
from litestar.response import Redirect

@get("/l/{slug:str}", status_code=302)
async def bare(slug: str) -> Redirect:
    return Redirect("https://www.example.com/offers/1")

uvicorn.run(Litestar([bare], openapi_config=None, logging_config=None), port=int(sys.argv[1]),
            loop="uvloop", http="httptools", ws="none", access_log=False, log_level="warning",
            server_header=False)
"""

NGINX_SETTINGS = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 100000000;
    client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
    uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
    server {{ listen 127.0.0.1:{port}; location /l/ {{ return 302 {web}; }} }}
}}
"""


def run(bench: Bench) -> list[Table]:
    seconds, rounds = (1, 1) if bench.small else (2, 7)
    folder = bench.folder / "redirects"
    folder.mkdir()
    loads: dict[str, list[Load]] = {NGINX: [], BARE: [], OURS: []}
    with (
        _nginx(folder) as nginx,
        plain_server(BARE_APP) as bare,
        penstock(folder / "data") as service,
    ):
        urls = {NGINX: nginx, BARE: bare, OURS: service.url}
        _make_link(service.url)
        for url in urls.values():
            _load(f"{url}/l/sale", 1)  # warm-up
        for round_number in range(rounds):
            bench.progress(f"round {round_number + 1} of {rounds}")
            for name, url in urls.items():
                loads[name].append(_load(f"{url}/l/sale", seconds))
                wait_until_idle(service.pid)
    bare_rate = median(load.rate for load in loads[BARE])
    ratios = [ours.rate / base.rate for ours, base in zip(loads[OURS], loads[BARE], strict=True)]
    rows: list[list[Cell]] = [
        [
            name,
            rate := median(load.rate for load in got),
            median(load.p50_ms for load in got),
            median(load.p99_ms for load in got),
            rate / bare_rate,
        ]
        for name, got in loads.items()
    ]
    columns = (
        Column("server"),
        Column("requests per s", 0),
        Column("p50, ms", 1),
        Column("p99, ms", 1),
        Column("of the plain redirect", 2),
    )
    notes = (
        f"One process each, {CONNECTIONS} connections, in turn; medians of the rounds. The plain "
        "redirect is one of the same framework. Ratio of ours to it, by round: "
        f"{', '.join(f'{ratio:.2f}' for ratio in ratios)}. Median {median(ratios):.3f}, target 0.6."
    )
    plot = Plot("redirects", "bars", "server", ("requests per s",), "requests per s", y_log=True)
    return [Table("Redirects", columns, rows, notes, (plot,))]


def _load(url: str, seconds: int) -> Load:
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency"]
    output = subprocess.run(
        [*command, "-H", f"User-Agent: {_AGENT}", url], capture_output=True, text=True, check=True
    ).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        raise RuntimeError(f"{url} refused requests: {output}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", output)
    assert rate is not None
    return Load(float(rate[1]), _latency(output, 50), _latency(output, 99))


def _latency(output: str, percentile: int) -> float:
    match = re.search(rf"{percentile}%\s+([\d.]+)(us|ms|s)", output)
    assert match is not None
    return float(match[1]) * {"us": 0.001, "ms": 1, "s": 1000}[match[2]]


def _make_link(url: str) -> None:
    with signed_in(url) as client:
        app = create(client, "/api/settings/websites", {"name": "Bench", "kind": "mobile"})["id"]
        link = {
            "websiteId": app,
            "name": "Sale",
            "slug": "sale",
            "destinationPath": "/offers/1",
            "fallbackUrl": _WEB,
        }
        create(client, "/api/mobile/deferred-links", link)


@contextmanager
def _nginx(folder: Path) -> Iterator[str]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise RuntimeError("needs nginx (Debian: apt install nginx-light)")
    port = free_port()
    settings = folder / "nginx.conf"
    settings.write_text(NGINX_SETTINGS.format(folder=folder, port=port, web=_WEB), encoding="utf-8")
    with process([program, "-c", str(settings), "-e", str(folder / "error.log")]):
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: responds(url))
        yield url
