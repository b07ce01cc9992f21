"""Connections to a ClickHouse server over HTTP, without sessions."""

from collections.abc import Mapping
from typing import Any, cast

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.httpclient import HttpClient
from clickhouse_connect.driver.httputil import all_managers, get_pool_manager_options
from urllib3 import BaseHTTPResponse, PoolManager, Timeout
from urllib3.exceptions import ProtocolError

from penstock.base.patterns import is_digits

_CONNECT_S = 5
_MARGIN_S = 10.0


class _CompleteHeaders(PoolManager):
    """Refuses answers that were cut in their headers.

    Python takes the end of a connection for the end of the headers, and an answer without a length
    for a whole one: a report would have no rows. ClickHouse always says where its answers end.
    """

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = True, **options: Any
    ) -> BaseHTTPResponse:
        answer = super().urlopen(method, url, redirect, **options)
        length = answer.headers.get("Content-Length", "")
        if not is_digits(length) and answer.headers.get("Transfer-Encoding") != "chunked":
            answer.close()
            raise ProtocolError("the headers of the answer are incomplete")
        return answer


class Server:
    """One server, or one address of a cluster.

    A connection has no state of its own, so it can be used again after any statement.
    """

    def __init__(self, url: str, connections: int, settings: Mapping[str, Any]) -> None:
        """connections: how many may be open. settings: of every statement."""
        self._url, self._settings = url, dict(settings)
        # The driver's own pool is one for the whole process and keeps eight.
        self._pool = _CompleteHeaders(**get_pool_manager_options(maxsize=connections))

    def connect(self, answer_s: int) -> Client:
        """answer_s: how long the server may send nothing."""
        return clickhouse_connect.get_client(
            dsn=self._url,
            autogenerate_session_id=False,
            connect_timeout=_CONNECT_S,
            send_receive_timeout=answer_s,
            settings=self._settings,
            pool_mgr=self._pool,
        )

    def close(self) -> None:
        """Close what is open and not in use."""
        self._pool.clear()
        all_managers.pop(self._pool, None)


def limit_answer(client: Client, settings: Mapping[str, Any], answer_s: int) -> None:
    """Wait for the next answer no longer than its statement may run, and at most `answer_s`.

    A server that hangs would hold its readers for that long otherwise.
    """
    allowed_s = float(settings.get("max_execution_time") or answer_s) + _MARGIN_S
    cast("HttpClient", client).timeout = Timeout(
        connect=_CONNECT_S, read=min(float(answer_s), allowed_s)
    )
