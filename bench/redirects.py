"""Rate of link redirects, beside the framework's plain redirect and nginx.

Penstock answers `GET /l/{slug}` of a link with a fallback URL for a desktop browser: it finds the
link, parses the User-Agent and stores a click. The bare server is Litestar with a plain handler and
the same uvicorn settings; nginx has `return 302` in one worker. All get the same requests from
`wrk`, in turn.
"""

import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.intake import new_account, penstock, process, responds, wait_for
from bench.rounds import Comparison, compare

CONNECTIONS = 64
SECONDS = 2
ROUNDS = 7
TARGET = 0.6
_AGENT = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/137.0.0.0 Safari/537.36 Edg/137.0.0.0"
)
_WEB = "https://www.example.com/offers/1"

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

NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 100000000;
    client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
    uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
    server {{ listen 127.0.0.1:{port}; location /l/ {{ return 302 {web}; }} }}
}}
"""


def run(seconds: int = SECONDS, rounds: int = ROUNDS) -> Comparison:
    results: dict[str, list[dict[str, float]]] = {"nginx": [], "bare": [], "penstock": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _nginx(folder) as nginx, _bare() as bare, penstock(folder / "data") as ours:
            urls = {"nginx": nginx, "bare": bare, "penstock": ours}
            _make_link(ours)
            for url in urls.values():
                _load(f"{url}/l/sale", 1)  # warm
            for _ in range(rounds):
                for server, url in urls.items():
                    results[server].append(_load(f"{url}/l/sale", seconds))
    return compare(results, CONNECTIONS, ours="penstock", bare="bare")


def _load(url: str, seconds: int) -> dict[str, float]:
    command = [
        "wrk",
        "-t1",
        f"-c{CONNECTIONS}",
        f"-d{seconds}s",
        "--latency",
        "-H",
        f"User-Agent: {_AGENT}",
        url,
    ]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        raise SystemExit(f"{url} refused requests: {output}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", output)
    assert rate is not None
    return {"rate": float(rate[1]), "p50_ms": _latency(output, 50), "p99_ms": _latency(output, 99)}


def _latency(output: str, percentile: int) -> float:
    match = re.search(rf"{percentile}%\s+([\d.]+)(us|ms|s)", output)
    assert match is not None
    return round(float(match[1]) * {"us": 0.001, "ms": 1, "s": 1000}[match[2]], 2)


def _make_link(url: str) -> None:
    with new_account(url) as client:
        app = (
            client.post("/api/settings/websites", json={"name": "Bench", "kind": "mobile"})
            .raise_for_status()
            .json()["id"]
        )
        link = {
            "websiteId": app,
            "name": "Sale",
            "slug": "sale",
            "destinationPath": "/offers/1",
            "fallbackUrl": _WEB,
        }
        client.post("/api/mobile/deferred-links", json=link).raise_for_status()


@contextmanager
def _bare() -> Iterator[str]:
    port = _free_port()
    with process([sys.executable, "-c", BARE_APP, str(port)]):
        url = f"http://127.0.0.1:{port}"
        yield wait_for(lambda: url if responds(url, 404) else None)


@contextmanager
def _nginx(folder: Path) -> Iterator[str]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise SystemExit("the redirect benchmark needs nginx (Debian: apt install nginx-light)")
    port = _free_port()
    settings = folder / "nginx.conf"
    settings.write_text(NGINX.format(folder=folder, port=port, web=_WEB), encoding="utf-8")
    with process([program, "-c", str(settings), "-e", str(folder / "error.log")]):
        url = f"http://127.0.0.1:{port}"
        yield wait_for(lambda: url if responds(f"{url}/none", 404) else None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    print(run())
