"""A program that serves the embedded engine over ClickHouse's HTTP interface, for tests.

No server of ClickHouse is part of the tests' set-up. The engine of this one is the real one: chDB,
in a process of its own, with a connection for each request. What is imitated here is the interface
around it, as far as clickhouse-connect uses it: statements in the body or the address, bound
parameters and settings, inserts, compression, answers at once or as a stream, progress and summary
headers, errors with their codes, `KILL QUERY`, and that a query ends when its client has gone.

Not imitated: sessions, users, quotas, the newer form of the Native format, limits of a server.

    python -m tests.clickhouse_http FOLDER PORT
"""

import gzip
import json
import re
import secrets
import select
import socket
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from email.parser import BytesParser
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import chdb
import lz4.frame

_TRANSPORT = frozenset(
    (
        "query",
        "database",
        "query_id",
        "wait_end_of_query",
        "enable_http_compression",
        "client_protocol_version",
        "send_progress_in_http_headers",
        "http_headers_progress_interval_ms",
        "buffer_size",
        "cancel_http_readonly_queries_on_client_close",
    )
)
"""Fields of an address that are no settings of the engine."""

_INSERT = re.compile(rb"\s*(INSERT\s+INTO\s[^\n]*?)\sFORMAT\s+(\w+)[ \t]*\n", re.IGNORECASE)
_FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
_READS = re.compile(r"\s*(?:--[^\n]*\n\s*)*(?:SELECT|WITH|SHOW|EXPLAIN|DESCRIBE)\b", re.IGNORECASE)
_KILL = re.compile(r"\s*(?:--[^\n]*\n\s*)*KILL\s+QUERY\b", re.IGNORECASE)
_QUERY_ID = r"extract(query, '^/\\* (\\S+) \\*/')"
_CODE = re.compile(r"Code: (\d+)\.")
_IS_GONE_S = 0.05

_STATUSES = (
    (401, (194,)),
    (403, (192, 193, 516)),
    (400, (6, 26, 27, 36, 38, 41, 47, 53, 62, 72, 117, 386, 427)),
    (404, (16, 46, 50, 60, 73, 81, 115)),
    (413, (309,)),
    (501, (1, 48)),
    (503, (76, 209, 439)),
    (408, (159,)),
)
"""As `exceptionCodeToHTTPStatus` of ClickHouse: the status for some codes; 500 for all others."""


class EngineError(Exception):
    """What the engine or the interface refuses."""

    def __init__(self, message: str) -> None:
        match = _CODE.search(message)
        self.text = message[match.start() :] if match else message
        self.code = int(match[1]) if match else 1002  # an unknown exception

    @property
    def status(self) -> int:
        return next((status for status, codes in _STATUSES if self.code in codes), 500)


class Statement(NamedTuple):
    """One request. rows: of an insert, in the format `fmt`."""

    text: str
    query_id: str
    fields: Mapping[str, str]
    fmt: str | None
    rows: bytes | None

    @property
    def only_reads(self) -> bool:
        return bool(_READS.match(self.text))

    @property
    def parameters(self) -> dict[str, str]:
        return {
            name.removeprefix("param_"): value
            for name, value in self.fields.items()
            if name.startswith("param_")
        }

    @property
    def settings(self) -> dict[str, str]:
        return {
            name: value
            for name, value in self.fields.items()
            if not name.startswith("param_") and name not in _TRANSPORT
        }


class Engine:
    """The embedded engine, and the statements that run in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._first = chdb.connect(self._folder)  # the engine lives as long as a connection
        self.timezone = self._first.query("SELECT timezone()", "TSV").bytes().decode().strip()
        self._running: dict[str, socket.socket] = {}
        self._changes = Lock()
        Thread(target=self._stop_the_abandoned, daemon=True).start()

    @contextmanager
    def connection(self, statement: Statement, client: socket.socket) -> Iterator[Any]:
        """A connection with the statement's settings."""
        with self._changes:
            if statement.query_id in self._running:
                raise EngineError(
                    f"Code: 216. DB::Exception: Query with id = {statement.query_id} is already "
                    "running. (QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING)"
                )
            self._running[statement.query_id] = client
        try:
            with closing(chdb.connect(self._folder)) as connection, _translated():
                if database := statement.fields.get("database"):
                    connection.query(f"USE {database}", "TSV")
                for name, value in statement.settings.items():
                    connection.query(f"SET {name} = {_literal(value)}", "TSV")
                yield connection
        finally:
            with self._changes:
                del self._running[statement.query_id]

    def kill(self, query_id: str) -> None:
        with closing(chdb.connect(self._folder)) as connection, suppress(RuntimeError):
            connection.query(f"KILL QUERY WHERE {_QUERY_ID} = {_literal(query_id)} ASYNC", "TSV")

    def _stop_the_abandoned(self) -> None:
        """End queries whose client has closed its connection."""
        pause = Event()
        while not pause.wait(_IS_GONE_S):
            with self._changes:
                running = dict(self._running)
            for query_id, client in running.items():
                if _is_closed(client):
                    self.kill(query_id)


class Handler(BaseHTTPRequestHandler):
    """A request of the HTTP interface."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "ClickHouse", ""
    disable_nagle_algorithm = True

    def __init__(self, engine: Engine, *args: Any) -> None:
        self._engine = engine
        self._has_started = False
        super().__init__(*args)

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/ping":
            self._answer(200, {}, b"Ok.\n")
        else:
            self._handle()

    def do_POST(self) -> None:
        self._handle()

    def log_message(self, *_: Any) -> None:
        """Nothing: tests look at the service's log."""

    def _handle(self) -> None:
        self._has_started = False
        query_id = ""
        try:
            statement = self._statement()
            query_id = statement.query_id
            with self._engine.connection(statement, self.connection) as connection:
                self._run(connection, statement)
        except EngineError as error:
            self._refuse(error, query_id)
        except (ConnectionError, EOFError):
            self.close_connection = True

    def _statement(self) -> Statement:
        fields = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self._body()
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/form-data"):
            form = _form(kind, body)
            body = form.pop("query", "").encode()
            fields |= form
        text = fields.get("query", "").encode()
        text = text + b"\n" + body if text and body else text or body
        if "session_id" in fields:
            raise EngineError("Code: 48. DB::Exception: Sessions are off here. (NOT_IMPLEMENTED)")
        rows = None
        if insert := _INSERT.match(text):
            text, fmt, rows = insert[1], insert[2].decode(), text[insert.end() :]
        else:
            match = _FORMAT.search(text.decode())
            fmt = match[1] if match else None
        return Statement(text.decode(), fields.get("query_id") or str(uuid4()), fields, fmt, rows)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b"".join(self._chunks())
        else:
            length = int(self.headers.get("Content-Length", "0"))
            body = self.rfile.read(length)
            if len(body) < length:
                raise EOFError  # its client has gone; what it sent is no statement
        match self.headers.get("Content-Encoding", "identity"):
            case "identity" | "":
                return body
            case "gzip":
                return gzip.decompress(body)
            case "deflate":
                return zlib.decompress(body)
            case "lz4":
                return bytes(lz4.frame.decompress(body))
            case other:
                raise EngineError(
                    f"Code: 89. DB::Exception: Unknown compression {other}. "
                    "(UNKNOWN_COMPRESSION_METHOD)"
                )

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline() or b"x", 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _run(self, connection: Any, statement: Statement) -> None:
        self._send_progress(connection, statement)
        text = f"/* {statement.query_id} */ {statement.text}"
        if _KILL.match(statement.text):
            text = re.sub(r"\bquery_id\b", lambda _: _QUERY_ID, text)
        if statement.rows is not None:
            self._insert(connection, statement, text)
        elif statement.fields.get("wait_end_of_query") == "1" or not statement.fmt:
            # A statement with a result says which format it has, even when it has no rows.
            named = "TabSeparated" if statement.fmt else "TabSeparatedWithNames"
            result = connection.query(text, named, params=statement.parameters)
            body, fmt = result.bytes() or b"", statement.fmt
            if fmt is None and body:
                body, fmt = body.partition(b"\n")[2], "TabSeparated"
            headers = self._headers(statement, fmt, result)
            compress = self._compressor(statement)
            if compress and body:
                headers["Content-Encoding"] = "lz4"
                body = compress.begin() + compress.compress(body) + compress.flush()
            self._answer(200, headers, body)
        else:
            self._stream(
                connection.send_query(text, statement.fmt, params=statement.parameters), statement
            )

    def _insert(self, connection: Any, statement: Statement, text: str) -> None:
        with tempfile.NamedTemporaryFile(suffix=".rows") as file:
            file.write(statement.rows or b"")
            file.flush()
            result = connection.query(
                f"{text} FROM INFILE {_literal(file.name)} FORMAT {statement.fmt}", "TSV"
            )
        headers = self._headers(statement, None, None)
        rows = str(result.rows_read())
        headers["X-ClickHouse-Summary"] = json.dumps({"written_rows": rows, "read_rows": rows})
        self._answer(200, headers, b"")

    def _stream(self, blocks: Any, statement: Statement) -> None:
        """The answer block by block. An error after the first one ends it in the middle."""
        compress = self._compressor(statement)
        tag = secrets.token_hex(8)
        pending = compress.begin() if compress else b""
        with blocks:
            blocks = iter(blocks)
            first = next(blocks, None)  # an error before it is an answer of its own
            headers = self._headers(statement, statement.fmt, None)
            headers |= {"Transfer-Encoding": "chunked", "X-ClickHouse-Exception-Tag": tag}
            if compress:
                headers["Content-Encoding"] = "lz4"
            self._begin(200, headers)
            try:
                while first is not None:
                    data = first.bytes()
                    pending += compress.compress(data) if compress else data
                    self._chunk(pending)
                    pending, first = b"", next(blocks, None)
            except RuntimeError as error:
                reason = EngineError(str(error)).text.encode()
                message = b"\r\n__exception__\r\n%s\r\n%s\n%d %s\r\n__exception__\r\n" % (
                    tag.encode(),
                    reason,
                    len(reason) + 1,
                    tag.encode(),
                )
                self._chunk(compress.compress(message) + compress.flush() if compress else message)
                self.close_connection = True  # without the last chunk
                return
        self._chunk(pending + (compress.flush() if compress else b""))
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _compressor(self, statement: Statement) -> lz4.frame.LZ4FrameCompressor | None:
        accepted = [each.strip() for each in self.headers.get("Accept-Encoding", "").split(",")]
        is_wanted = statement.fields.get("enable_http_compression") == "1" and "lz4" in accepted
        return lz4.frame.LZ4FrameCompressor(auto_flush=True) if is_wanted else None

    def _send_progress(self, connection: Any, statement: Statement) -> None:
        """Headers one by one while the statement runs, so that its client does not give up."""
        if statement.fields.get("send_progress_in_http_headers") != "1":
            return
        pause_s = int(statement.fields.get("http_headers_progress_interval_ms", "100")) / 1000
        next_s = monotonic() + pause_s

        def progress(counts: Mapping[str, int]) -> None:
            nonlocal next_s
            if monotonic() < next_s:
                return
            next_s = monotonic() + pause_s
            with suppress(OSError):
                line = "" if self._has_started else "HTTP/1.1 200 OK\r\n"
                texts = {name: str(count) for name, count in counts.items()}
                line += f"X-ClickHouse-Progress: {json.dumps(texts)}\r\n"
                self._has_started = True
                self.wfile.write(line.encode())

        connection.set_progress_callback(progress)

    def _headers(self, statement: Statement, fmt: str | None, result: Any) -> dict[str, str]:
        headers = {
            "X-ClickHouse-Query-Id": statement.query_id,
            "X-ClickHouse-Timezone": self._engine.timezone,
        }
        if fmt is not None:
            headers["X-ClickHouse-Format"] = fmt
        if result is not None:
            headers["X-ClickHouse-Summary"] = json.dumps(
                {
                    "read_rows": str(result.storage_rows_read()),
                    "read_bytes": str(result.storage_bytes_read()),
                    "result_rows": str(result.rows_read()),
                    "elapsed_ns": str(int(result.elapsed() * 1e9)),
                }
            )
        return headers

    def _refuse(self, error: EngineError, query_id: str) -> None:
        headers = {
            "X-ClickHouse-Exception-Code": str(error.code),
            "X-ClickHouse-Query-Id": query_id,
            "Content-Type": "text/plain; charset=UTF-8",
        }
        with suppress(ConnectionError):
            self._answer(error.status, headers, error.text.encode() + b"\n")

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self._begin(status, {**headers, "Content-Length": str(len(body))})
        self.wfile.write(body)

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        if not self._has_started:  # else progress is there already, and the status was 200
            self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


class Server(ThreadingHTTPServer):
    """Listens on 127.0.0.1."""

    daemon_threads = True
    request_queue_size = 128


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise EngineError(str(error)) from error


def _literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _form(content_type: str, body: bytes) -> dict[str, str]:
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    parts = BytesParser().parsebytes(head + body).get_payload()
    return {
        str(part.get_param("name", header="Content-Disposition")): part.get_payload(
            decode=True
        ).decode()
        for part in parts
    }


def _is_closed(client: socket.socket) -> bool:
    try:
        readable, _, _ = select.select([client], [], [], 0)
        return bool(readable) and client.recv(1, socket.MSG_PEEK) == b""
    except (OSError, ValueError):
        return True


def main(folder: str, port: str) -> None:
    engine = Engine(Path(folder))
    server = Server(("127.0.0.1", int(port)), partial(Handler, engine))
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
