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
_MARGIN_S = 1.5
"""Seconds that a server may take to report that a query exceeded its time limit."""


class _CompleteHeaders(PoolManager):
    """Rejects responses that end inside their headers.

    Python treats the end of a connection as the end of the headers, and a response without a length
    as complete. A report would then have no rows. ClickHouse always marks the end of a response, so
    a complete response is never rejected.
    """

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = True, **options: Any
    ) -> BaseHTTPResponse:
        response = super().urlopen(method, url, redirect, **options)
        length = response.headers.get("Content-Length", "")
        if not is_digits(length) and response.headers.get("Transfer-Encoding") != "chunked":
            response.close()
            raise ProtocolError("the response headers are incomplete")
        return response


class Server:
    """One server, or one address of a cluster.

    Connections are stateless, so they can be reused after any statement.
    """

    def __init__(self, url: str, connections: int, settings: Mapping[str, Any]) -> None:
        """connections: maximum number of open connections.
        settings: settings sent with every statement.
        """
        self._url, self._settings = url, dict(settings)
        # The driver's default pool serves the whole process and keeps only eight connections.
        self._pool = _CompleteHeaders(**get_pool_manager_options(maxsize=connections))

    def connect(self, answer_s: int) -> Client:
        """Create a client. answer_s: maximum time that the server may stay silent, in seconds."""
        return clickhouse_connect.get_client(
            dsn=self._url,
            autogenerate_session_id=False,
            connect_timeout=_CONNECT_S,
            send_receive_timeout=answer_s,
            settings=self._settings,
            pool_mgr=self._pool,
        )

    def close(self) -> None:
        """Close idle connections."""
        self._pool.clear()
        all_managers.pop(self._pool, None)


def limit_answer(client: Client, settings: Mapping[str, Any], answer_s: int) -> None:
    """Limit the wait for the next response to the time that its statement may run.

    Without this limit, a server that hangs would hold readers for `answer_s` seconds.

    answer_s: the limit for statements without a time limit, and the upper bound for all others.
    """
    allowed_s = float(settings.get("max_execution_time") or answer_s) + _MARGIN_S
    cast("HttpClient", client).timeout = Timeout(
        connect=_CONNECT_S, read=min(float(answer_s), allowed_s)
    )
