"""ClickHouse servers for tests: a single server, or several shards of a cluster.

A server is `tests.clickhouse_process`, a separate process on 127.0.0.1. Penstock's user has exactly
the rights that docs/scaling.md asks for. There is no Keeper, so there are no replicated tables and
no `ON CLUSTER` statements.
"""

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

import httpx

from tests import programs
from tests.serving import environment
from tests.waiting import PATIENCE_S, eventually

CLUSTER, EVERYWHERE = "penstock", "penstock_everywhere"
"""Names of two clusters. In the first cluster, each server is a shard. In the second, each server
is a replica of the only shard.
"""

DATABASE, USER, PASSWORD = "penstock", "penstock", "Secret-1"
ADMIN, ADMIN_PASSWORD = "admin", "Secret-2"

RIGHTS = (
    "GRANT ALL ON penstock.*",
    "GRANT SELECT ON system.parts",
    "GRANT SELECT ON system.processes",
    "GRANT SELECT ON system.mutations",
)
"""Rights of Penstock's user on a single server, as listed in docs/scaling.md."""

CLUSTER_RIGHTS = (
    *RIGHTS,
    "GRANT READ, WRITE ON REMOTE",
    "GRANT CLUSTER ON *.*",
    "GRANT SELECT ON system.replicas",
)
"""Rights of Penstock's user in a cluster."""

READER, READER_PASSWORD = "analyst", "Secret-3"
READER_RIGHTS = ("GRANT SELECT ON penstock.events", "GRANT SELECT ON penstock.visitor_aliases")
READER_SETTINGS = {"readonly": 1, "max_execution_time": 60}
"""The user that docs/moving-out.md gives to other tools."""

_PROGRAM = Path(__file__).with_name("clickhouse_process.py")
_PORTS = range(10_000, 32_000)  # The system does not use these ports for outgoing connections.


class Ports(NamedTuple):
    http: int
    tcp: int


class ClickHouseServer:
    """A server. Its data and its URL, including user and database, survive restarts."""

    def __init__(
        self,
        folder: Path,
        rights: Sequence[str] = RIGHTS,
        ports: Ports | None = None,
        cluster: Sequence[Ports] = (),
    ) -> None:
        """cluster: ports of all servers of its cluster; empty for a single server."""
        programs.require("starts_database")
        self._folder, self._rights = folder, rights
        self._ports, self._cluster = ports or free_ports(), cluster
        folder.mkdir(parents=True, exist_ok=True)
        self.start()
        self.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")

    @property
    def port(self) -> int:
        """The port for HTTP."""
        return self._ports.http

    @property
    def url(self) -> str:
        return self.url_behind(self.port)

    def url_behind(self, port: int) -> str:
        """The URL of the server through a proxy that listens on this port."""
        return f"http://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}"

    @property
    def pid(self) -> int:
        """The process ID; a restart changes it."""
        return self._process.pid

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        (self._folder / "config.xml").write_text(self._config())
        (self._folder / "users.xml").write_text(_users(self._rights))
        with (self._folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, _PROGRAM, self._folder, *self._arguments()],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment(),
                start_new_session=True,  # This keeps Ctrl-C from reaching the server.
            )
        eventually(self._answers)

    def restart_with(self, rights: Sequence[str]) -> None:
        """Restart the server with other rights for the user."""
        self.kill()
        self._rights = rights
        self.start()

    def execute(self, statement: str) -> str:
        """Run a statement as the administrator and return its result."""
        response = self.answer(statement, ADMIN, ADMIN_PASSWORD)
        assert response.status_code == 200, response.text
        return response.text.strip()

    def answer(self, statement: str, user: str, password: str) -> httpx.Response:
        """Send a statement as a user and return the response."""
        login = {"X-ClickHouse-User": user, "X-ClickHouse-Key": password}
        return httpx.post(
            f"http://127.0.0.1:{self.port}/", content=statement, headers=login, timeout=PATIENCE_S
        )

    def freeze(self) -> None:
        """Suspend the process. Its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL. `start` restarts the server."""
        self._process.kill()
        self._process.wait(timeout=PATIENCE_S)
        assert self._process.stdin is not None
        self._process.stdin.close()

    def stop(self) -> None:
        """Kill the server and delete its data."""
        self.kill()
        shutil.rmtree(self._folder)

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "output.log").read_text()[-3000:]
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/ping", timeout=1).status_code == 200
        except httpx.TransportError:
            return False

    def _arguments(self) -> Sequence[str]:
        """More arguments of the program."""
        return ()

    def _config(self) -> str:
        replicas = [replica_element(ports) for ports in self._cluster]
        shards = "".join(f"<shard>{replica}</shard>" for replica in replicas)
        clusters = (
            f"<{CLUSTER}>{shards}</{CLUSTER}>"
            f"<{EVERYWHERE}><shard>{''.join(replicas)}</shard></{EVERYWHERE}>"
        )
        return self._config_with(f"<remote_servers>{clusters if replicas else ''}</remote_servers>")

    def _config_with(self, more: str) -> str:
        """The configuration of the server. more: further elements."""
        return f"""<clickhouse>
<listen_host>127.0.0.1</listen_host>
<http_port>{self._ports.http}</http_port>
<tcp_port>{self._ports.tcp}</tcp_port>
<users_config>users.xml</users_config>
{more}
<access_control_improvements>
    <select_from_system_db_requires_grant>true</select_from_system_db_requires_grant>
    <on_cluster_queries_require_cluster_grant>true</on_cluster_queries_require_cluster_grant>
    <select_from_information_schema_requires_grant>true</select_from_information_schema_requires_grant>
    <table_engines_require_grant>false</table_engines_require_grant>
</access_control_improvements>
</clickhouse>"""


def replica_element(ports: Ports) -> str:
    return (
        f"<replica><host>127.0.0.1</host><port>{ports.tcp}</port>"
        f"<user>{USER}</user><password>{PASSWORD}</password></replica>"
    )


def _users(rights: Sequence[str]) -> str:
    serving = ("GRANT SYSTEM LISTEN ON *.*", "GRANT SELECT ON system.numbers")
    limits = "".join(f"<{name}>{value}</{name}>" for name, value in READER_SETTINGS.items())
    return f"""<clickhouse>
<profiles><default/><{READER}>{limits}</{READER}></profiles>
<quotas><default/></quotas>
<users>
    {_user("default", "", serving)}
    {_user(ADMIN, ADMIN_PASSWORD, ("GRANT ALL ON *.*",))}
    {_user(USER, PASSWORD, rights)}
    {_user(READER, READER_PASSWORD, READER_RIGHTS, profile=READER)}
</users>
</clickhouse>"""


def _user(name: str, password: str, rights: Sequence[str], profile: str = "default") -> str:
    secret = (
        f"<password_sha256_hex>{sha256(password.encode()).hexdigest()}</password_sha256_hex>"
        if password
        else "<password/>"
    )
    queries = "".join(f"<query>{right}</query>" for right in rights)
    return (
        f"<{name}>{secret}<networks><ip>127.0.0.1</ip></networks><profile>{profile}</profile>"
        f"<quota>default</quota><grants>{queries}</grants></{name}>"
    )


@contextmanager
def two_shards(folder: Path) -> Iterator[tuple[ClickHouseServer, ClickHouseServer]]:
    """Start two servers, which form the shards of `CLUSTER`."""
    ports = (free_ports(), free_ports())
    first, second = (
        ClickHouseServer(folder / f"shard-{number}", CLUSTER_RIGHTS, own, ports)
        for number, own in enumerate(ports, 1)
    )
    try:
        yield first, second
    finally:
        first.stop()
        second.stop()


def free_ports() -> Ports:
    """Two unused ports."""
    return Ports(_free_port(), _free_port())


def _free_port() -> int:
    while True:
        port = SystemRandom().choice(_PORTS)
        with closing(socket.socket()) as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
