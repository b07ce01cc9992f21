"""Two shards with two replicas each: real servers and a real ZooKeeper, on 127.0.0.1.

The servers are those of `tests.clickhouse_server`, completed by `complete_engine`. Replicated
tables with their log, merges, mutations and fetches are real; the queue of `ON CLUSTER` is not,
because the engine does not run it. So a `FrontProxy` before each server runs such a statement
itself: ALTER, TRUNCATE and OPTIMIZE on one live replica of each shard, all others on each live
server.
"""

import http.client
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from uuid import NAMESPACE_DNS, uuid4, uuid5

from tests.clickhouse_server import (
    CLUSTER,
    CLUSTER_RIGHTS,
    DATABASE,
    PASSWORD,
    USER,
    ClickHouseServer,
    Ports,
    free_ports,
    replica_element,
)
from tests.replicas.complete_engine import HOST
from tests.waiting import PATIENCE_S, eventually

ZOOKEEPER = Path("/usr/share/java/zookeeper.jar")
"""The library of Debian's package `zookeeper`."""

REPLICATED = (
    "events_local",
    "catalogue_local",
    "visitor_aliases",
    "visitor_traits",
    "funnel_outcomes",
    "funnel_outcome_values",
    "funnel_outcome_unitless",
    "funnel_outcome_marks",
)
_SHARDS = 2
_SECRET = "Secret-4"


class Member(NamedTuple):
    """A server's place in the cluster, from 1."""

    shard: int
    replica: int
    ports: Ports


class ZooKeeper:
    """A ZooKeeper server. Its data survive a restart."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.port = folder, free_ports().tcp
        folder.mkdir(parents=True)
        (folder / "zoo.cfg").write_text(
            f"tickTime=1000\ndataDir={folder}/data\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
            "forceSync=no\n"
        )
        self.start()

    def start(self) -> None:
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        with (self._folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                ["java", "-Xmx256m", "-cp", ZOOKEEPER, main, "zoo.cfg"],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        eventually(self._listens)

    def _listens(self) -> bool:
        assert self._process.poll() is None, (self._folder / "output.log").read_text()[-3000:]
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=PATIENCE_S)


class ReplicaServer(ClickHouseServer):
    """A replica. number: its position in the cluster, from 0."""

    def __init__(
        self, folder: Path, members: Sequence[Member], number: int, zookeeper_port: int
    ) -> None:
        self.member, self._members = members[number], members
        self._zookeeper_port = zookeeper_port
        self._uuid = uuid5(NAMESPACE_DNS, f"replica-{number}")
        self.is_up = False
        super().__init__(folder, CLUSTER_RIGHTS, self.member.ports)

    def start(self) -> None:
        super().start()
        self.is_up = True

    def kill(self) -> None:
        self.is_up = False
        super().kill()

    def end(self) -> None:
        """Kill the server if it runs."""
        if self.is_up:
            self.kill()

    def _arguments(self) -> Sequence[str]:
        return (str(self.port), str(self._uuid))

    def _config(self) -> str:
        shards = "".join(
            "<shard><internal_replication>true</internal_replication>"
            + "".join(_element(each) for each in self._members if each.shard == shard)
            + "</shard>"
            for shard in range(1, _SHARDS + 1)
        )
        return self._config_with(
            f"<listen_host>{HOST}</listen_host>"
            f"<macros><shard>{self.member.shard}</shard><replica>{self.member.replica}</replica>"
            f"</macros><remote_servers><{CLUSTER}><secret>{_SECRET}</secret>{shards}</{CLUSTER}>"
            "</remote_servers><zookeeper><session_timeout_ms>6000</session_timeout_ms><node>"
            f"<host>127.0.0.1</host><port>{self._zookeeper_port}</port></node></zookeeper>"
        )


def _element(member: Member) -> str:
    """A replica in `remote_servers`. With a secret, servers send no user to each other."""
    return re.sub("<user>.*</password>", "", replica_element(member.ports))


class ReplicatedCluster:
    """servers: first both replicas of shard 1, then those of shard 2."""

    def __init__(self, folder: Path, started: ExitStack) -> None:
        """started: ends what this starts, also if a start fails."""
        self.zookeeper = ZooKeeper(folder / "zookeeper")
        started.callback(self.zookeeper.kill)
        members = [
            Member(shard, replica, free_ports())
            for shard in range(1, _SHARDS + 1)
            for replica in (1, 2)
        ]
        self.servers = list[ReplicaServer]()
        for number in range(len(members)):
            server = ReplicaServer(folder / f"{number}", members, number, self.zookeeper.port)
            started.callback(server.end)
            self.servers.append(server)
        self._proxies = [FrontProxy(self, server) for server in self.servers]
        for proxy in self._proxies:
            started.callback(proxy.close)

    @property
    def url(self) -> str:
        """The URL for Penstock. Requests go to the first server that runs."""
        return self.url_of(0)

    def url_of(self, number: int) -> str:
        """The URL that prefers this server."""
        return f"http://{USER}:{PASSWORD}@127.0.0.1:{self._proxies[number].port}/{DATABASE}"

    def sync(self) -> None:
        """Wait until every server that runs has all parts."""
        for server in self.servers:
            for table in REPLICATED if server.is_up else ():
                server.execute(f"SYSTEM SYNC REPLICA {DATABASE}.{table}")

    def hold_fetches(self, number: int) -> None:
        """Let no server send parts to this one. `heal` ends that."""
        for other in self.servers:
            if other.is_up and other is not self.servers[number]:
                other.execute("SYSTEM STOP REPLICATED SENDS")

    def heal(self) -> None:
        """Start what a test has killed, and let all replicas fetch parts."""
        if self.zookeeper._process.poll() is not None:
            self.zookeeper.start()
        for server in self.servers:
            if not server.is_up:
                server.start()
            server.thaw()
            server.execute("SYSTEM START REPLICATED SENDS")
        eventually(lambda: all(map(_is_writable, self.servers)))
        self.sync()


def _is_writable(server: ReplicaServer) -> bool:
    return server.execute("SELECT count() FROM system.replicas WHERE is_readonly") == "0"


@contextmanager
def replicated_cluster(folder: Path) -> Iterator[ReplicatedCluster]:
    with ExitStack() as started:
        yield ReplicatedCluster(folder, started)


_ON_CLUSTER = re.compile(rf"\s*ON CLUSTER `?{CLUSTER}`?")
_NEW_TABLE = re.compile(r"(CREATE TABLE IF NOT EXISTS \w+)")
_ONE_OF_SHARD = re.compile(r"\s*(--[^\n]*\n|\s)*(ALTER|TRUNCATE|OPTIMIZE)")
_OF_CONNECTION = ("transfer-encoding", "content-length", "host", "connection", "keep-alive")
_Response = tuple[int, Sequence[tuple[str, str]], bytes]


class FrontProxy:
    """Sends requests to a server, or to the next one while it is down, and does the work of the
    queue of `ON CLUSTER`.
    """

    def __init__(self, cluster: ReplicatedCluster, server: ReplicaServer) -> None:
        self._cluster = cluster
        at = cluster.servers.index(server)
        self._order = [*cluster.servers[at:], *cluster.servers[:at]]
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = _body(self)
                try:
                    response = proxy._forward(self.command, self.path, dict(self.headers), body)
                except (OSError, http.client.HTTPException):
                    self.close_connection = True
                    return
                self.send_response(response[0])
                for name, value in response[1]:
                    if name.lower() not in _OF_CONNECTION:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(response[2])))
                self.end_headers()
                self.wfile.write(response[2])

            do_GET = do_POST  # noqa: N815 - the name that the base class calls

        class Listener(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 128

            def handle_error(self, *_: object) -> None:
                pass

        self._listener = Listener(("127.0.0.1", 0), Handler)
        Thread(target=self._listener.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self._listener.server_port

    def close(self) -> None:
        self._listener.shutdown()
        self._listener.server_close()

    def _forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> _Response:
        if b"ON CLUSTER" in body[:100_000]:
            run = partial(self._run_on_cluster, method, path, headers, body.decode())
            if b"distributed_ddl_task_timeout = 0" not in body:
                return run()
            Thread(target=run, daemon=True).start()
            return 200, [], b""
        for server in self._order:
            with suppress(ConnectionRefusedError):
                return _send(server, method, path, headers, body)
        raise ConnectionRefusedError

    def _run_on_cluster(
        self, method: str, path: str, headers: dict[str, str], statement: str
    ) -> _Response:
        plain = _ON_CLUSTER.sub("", statement)
        if "ENGINE = Replicated" in plain:
            plain = _NEW_TABLE.sub(rf"\1 UUID '{uuid4()}'", plain)
        shards = set[int]()
        for server in self._cluster.servers:
            is_replicated = _ONE_OF_SHARD.match(plain) and "exchanged_local" not in plain
            if not server.is_up or (is_replicated and server.member.shard in shards):
                continue
            shards.add(server.member.shard)
            until_s = time.monotonic() + PATIENCE_S
            while True:
                response = _send(server, method, path, headers, plain.encode())
                # An earlier ALTER on another replica may not have arrived yet.
                if b"CANNOT_ASSIGN_ALTER" not in response[2] or time.monotonic() > until_s:
                    break
                time.sleep(0.1)
            if response[0] >= 400:
                break
        return response


def _send(
    server: ReplicaServer, method: str, path: str, headers: dict[str, str], body: bytes
) -> _Response:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=330)
    passed_on = {name: text for name, text in headers.items() if name.lower() not in _OF_CONNECTION}
    try:
        connection.request(method, path, body, passed_on)
        response = connection.getresponse()
        return response.status, response.getheaders(), response.read()
    finally:
        connection.close()


def _body(request: BaseHTTPRequestHandler) -> bytes:
    if "chunked" not in request.headers.get("Transfer-Encoding", ""):
        return request.rfile.read(int(request.headers.get("Content-Length", 0)))
    parts = []
    while size := int(request.rfile.readline().split(b";")[0], 16):
        parts.append(request.rfile.read(size))
        request.rfile.readline()
    request.rfile.readline()
    return b"".join(parts)
