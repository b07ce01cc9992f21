"""Connections to the event store, and the statements that run on them.

A connection to chDB runs one statement at a time, so there are several: one for writes, one for
short statements that must never wait, such as stops, and a few for reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from queue import Empty, LifoQueue
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple
from uuid import uuid4

import clickhouse_connect
import structlog
from clickhouse_connect.driver.client import Client

from penstock.base.errors import StoreUnavailable
from penstock.base.fair_queue import FairQueue, QueueLimits, Turn
from penstock.base.metrics import histogram
from penstock.base.optional_packages import without_package
from penstock.base.patterns import Pattern
from penstock.base.tracing import span
from penstock.warehouse.cluster import Cluster
from penstock.warehouse.errors import (
    ABORTED,
    QUERY_WAS_CANCELLED,
    TIMEOUT_EXCEEDED,
    QueryFailed,
    translate_errors,
)
from penstock.warehouse.low_priority import EngineThreads
from penstock.warehouse.parameters import split_into_fields
from penstock.warehouse.queries import load
from penstock.warehouse.readers import Overdue, Reader, RunningStatement
from penstock.warehouse.server import Server, limit_answer
from penstock.warehouse.work import Stopped, Work, current_work
from penstock.warehouse.written_parts import WrittenParts

log = structlog.get_logger()

SQL = "penstock.warehouse"
_QUERY_S = histogram(
    "penstock_warehouse_query_seconds", "Time of a query, including its wait for a free reader."
)
_ENGINE_CONFIG = Path(__file__).with_name("engine.xml")
# To print a stack trace, the engine would open every library of the process and never close it.
_EMBEDDED_SETTINGS = {"calculate_text_stack_trace": 0}
_READS = Pattern(r"^(?:\s|--[^\n]*\n|/\*[^*]*\*/)*(?:SELECT|WITH)\b")
_LONGEST_PAUSE_S = 0.5
_ANSWER_S = 300
"""Maximum seconds to wait for a server's response. Queries have shorter limits."""
_WATCH_S = 10
"""Maximum seconds to wait for a server's response to a short statement, such as a stop."""
_LAST_STATEMENTS_S = 10.0
_PATIENCE_S = 5.0
"""Seconds after a statement's time limit or stop at which the statement is left to the engine."""
# Maximum numbers of waiting queries. They are a backstop for callers that do not limit themselves.
_MAX_WAITING, _MAX_WAITING_PER_OWNER = 1000, 200

Result = tuple[Sequence[str], Sequence[Sequence[Any]]]
"""Column names and rows."""


class Progress(NamedTuple):
    """Rows that a `Work` has read.

    rows_to_read: the engine's estimate for the statements so far, which may grow.
    """

    rows_read: int
    rows_to_read: int


class Connections:
    """Connections to the embedded engine or to a server. Methods block."""

    def __init__(
        self,
        *,
        data: Path,
        url: str | None,
        cluster: Cluster | None = None,
        readers: int = 4,
        readers_per_owner: int = 2,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """Connect to the server at `url`, or open the embedded engine in `data`.

        cluster: the cluster of the server at `url`, if any.
        readers: number of queries that may run at once. Others wait, and workspaces take turns.
        readers_per_owner: number of queries of one workspace that may run at once; at most half of
        `readers`, but at least one.
        patience_s: seconds after its limit or its stop at which a query is left to the engine.

        Queries raise `QueueFull` if too many are waiting.
        """
        self._data = data / "warehouse"
        self._inserts = data / "inserts"
        self.cluster = cluster
        self._server = None
        self._threads = EngineThreads()
        if url is not None:
            self._server = Server(url, readers + 2, cluster.settings if cluster else {})
        if url is None:
            self._data.mkdir(parents=True, exist_ok=True)
            self._remove_insert_files()
        self._writer, self._watcher = self._connect(), self._connect(_WATCH_S)
        self._written = WrittenParts(self._run_embedded)
        # This is a stack: the connection used last is reused first. None stands for a connection
        # that has not been opened yet.
        self._readers: LifoQueue[Reader | None] = LifoQueue()
        for _ in range(readers):
            self._readers.put(None)
        self._reader_count = readers
        self.query_limits = QueueLimits(
            slots=readers,
            slots_per_key=min(readers_per_owner, max(1, readers // 2)),
            waiting=_MAX_WAITING,
            waiting_per_key=_MAX_WAITING_PER_OWNER,
            reserved_slots=1,
        )
        self._turns = FairQueue("queries", self.query_limits)
        self._running: set[Work] = set()
        self._patience_s = patience_s
        self._overdue: set[Turn] = set()
        self.is_left_open = False
        """Whether `close` left the engine open, because it is still busy. Then the process must end
        with `os._exit`, because Python would remove the engine under its threads.
        """
        self._closing = Lock()

    def _connect(self, answer_s: int = _ANSWER_S) -> Client:
        with translate_errors():
            if self._server is not None:
                return self._server.connect(answer_s)
            # chDB needs pyarrow only for Arrow tables, and pyarrow takes 25 MB of memory.
            with without_package("pyarrow"):
                import chdb.state  # noqa: F401
            client = clickhouse_connect.get_client(
                interface="chdb",
                path=str(self._data),
                chdb_options={"config-file": str(_ENGINE_CONFIG)},
                settings=_EMBEDDED_SETTINGS,
            )
            self._threads.lower_priority()
            return client

    def _run_embedded(
        self, sql: str, parameters: Mapping[str, Any] | None = None
    ) -> Sequence[Sequence[Any]]:
        with translate_errors():
            return self._writer.query(sql, parameters=dict(parameters or {})).result_rows

    @contextmanager
    def _engine_file(self, ending: str) -> Iterator[Path]:
        """Yield the path of a file that the embedded engine reads or writes.

        The file is removed afterwards, or at the next start if this process is killed.
        """
        path = self._inserts / f"{uuid4().hex}.{ending}"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _remove_insert_files(self) -> None:
        """Remove files that a killed process left behind. The outbox still has their rows."""
        self._inserts.mkdir(mode=0o700, exist_ok=True)
        for file in self._inserts.iterdir():
            file.unlink()

    def _render(self, sql: str, parameters: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
        """Adapt a statement and its parameters to the engine."""
        text = self.cluster.render(sql) if self.cluster else sql
        values = dict(parameters or {})
        return split_into_fields(text, values) if self._server else (text, values)

    @property
    def folder(self) -> Path | None:
        """Folder of the embedded engine; None for a server."""
        return self._data if self._server is None else None

    def command(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, at_once: bool = False
    ) -> None:
        """Run a statement that returns no rows.

        at_once: whether to run the statement without waiting for others, with a limit of 10 seconds
        for a server.
        """
        client = self._watcher if at_once else self._writer
        with translate_errors():
            client.command(*self._render(sql, parameters))

    def query_at_once(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Result:
        """Like `Warehouse.query`, but for short statements. It does not wait for other queries."""
        with translate_errors():
            result = self._watcher.query(
                *self._render(sql, parameters), settings=dict(settings or {})
            )
        return result.column_names, result.result_rows

    @contextmanager
    def _open_reader(
        self, sql: str, settings: Mapping[str, Any] | None
    ) -> Iterator[RunningStatement]:
        """Lend a reader for one statement, with the settings of this thread's work.

        Reads are marked as read-only, because a server ends the statement of a client that has
        disconnected only if that statement cannot write.

        Raises `Stopped` if the work was stopped, even if the statement finished, because the
        embedded engine may then return an empty result. The engine may also deliver leftover rows
        to the next statement on the connection, so an embedded connection is closed after a stop or
        an error.
        """
        work = current_work() or Work()
        all_settings = {**work.limits, **(settings or {}), "log_comment": work.id}
        if self._server is not None and _READS.search(sql):
            # With the value 1, the server would refuse all other settings.
            all_settings["readonly"] = 2
        if self.cluster is not None:
            all_settings |= self.cluster.silence_limit(all_settings)
        attributes = {"db.system.name": "clickhouse", "penstock.log_comment": work.id}
        with (
            span("warehouse query", attributes),
            _QUERY_S.time(),
            self._turns.slot(work.owner, work.check) as turn,
        ):
            reader, is_reusable = self._readers.get(), self._server is not None
            try:
                reader = reader or Reader(self._connect())
                if self._server is not None:
                    limit_answer(reader.client, all_settings, _ANSWER_S)
                with translate_errors(), work.run_in_engine():
                    self._running.add(work)
                    statement = RunningStatement(reader, work, all_settings, self._patience_s)
                    yield statement
                work.check()
                is_reusable = True
            except QueryFailed as error:
                if error.code in (ABORTED, QUERY_WAS_CANCELLED) and work.is_stopped:
                    raise Stopped from error
                raise
            except Overdue:
                self._give_up(statement, turn)
                reader = None
                work.check()
                raise QueryFailed("The engine continues the statement.", TIMEOUT_EXCEEDED) from None
            finally:
                self._running.discard(work)
                # Return the reader before anything can fail, because other queries need it.
                self._readers.put(reader if is_reusable else None)
                if reader is not None and not is_reusable:
                    reader.close()
                if self._server is None:
                    self._threads.lower_priority()

    def _give_up(self, statement: RunningStatement, turn: Turn) -> None:
        """Leave a statement and its connection to the engine, and the slot to other workspaces."""
        work = statement.work
        log.warning("overdue_statement", log_comment=work.id, workspace_id=work.owner)

        def end() -> None:
            self._overdue.discard(turn)
            self._turns.leave(turn)
            log.info("overdue_statement_ended", log_comment=work.id)

        self._overdue.add(turn)
        self._turns.give_up(turn)
        statement.reader.leave(end)

    @property
    def overdue_statements(self) -> int:
        """Number of statements that the engine continues although nobody waits for them."""
        return len(self._overdue)

    def progress(self, work: Work) -> Progress:
        """Return the progress of a `Work`, without waiting for other statements."""
        shared = work.awaited_work
        finished_rows = work.rows_read + (shared.rows_read if shared else 0)
        parameters = {"works": [work.id, *([shared.id] if shared else [])]}
        [[read, to_read]] = self.query_at_once(load(SQL, "progress"), parameters)[1]
        return Progress(finished_rows + read, finished_rows + max(read, to_read))

    def stop(self, work: Work, until_s: float = inf) -> None:
        """Stop a `Work`: kill its running statement, and let no other statement start.

        Returns once none of its statements is running.
        until_s: monotonic time at which to give up on a server that hangs.
        """
        for stopped_work in work.stop():
            pause_s = 0.02
            while not stopped_work.wait_idle(0) and monotonic() < until_s:
                # Kill again on each round: the engine may not have received the statement yet.
                try:
                    self.command(load(SQL, "stop"), {"work": stopped_work.id}, at_once=True)
                except (QueryFailed, StoreUnavailable) as error:
                    log.warning("statement_not_stopped", error=str(error))
                stopped_work.wait_idle(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def close(self) -> None:
        """Stop running queries and close the engine."""
        with self._closing:
            until_s = monotonic() + _LAST_STATEMENTS_S
            for work in tuple(self._running):
                self.stop(work, until_s)
            for _ in range(self._reader_count):
                try:
                    reader = self._readers.get(timeout=max(0.0, until_s - monotonic()))
                except Empty:
                    break
                if reader is not None:
                    reader.close()
            if self._server is not None:
                self._server.close()
            elif self._overdue:
                self.is_left_open = True
                # Closing the engine would wait for these statements. Inserts are on the disk
                # (`written_parts`), so the engine loses nothing if the process ends without it.
                log.warning("engine_not_closed", statements=len(self._overdue))
                return
            self._watcher.close()
            self._writer.close()
