"""A blocking client, and a client for asyncio."""

from asyncio import to_thread
from collections.abc import Awaitable
from typing import Any, Self, Unpack

from penstock_sdk.calls import Json
from penstock_sdk.results import Results, ResultsQuery
from penstock_sdk.sending import EXIT_S, Sending


class Penstock(Sending[Json]):
    """Sends events from a separate thread. For the options, see `Sending`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def results(self, funnel_id: str, **query: Unpack[ResultsQuery]) -> Results:
        """Return the results of a saved funnel. Raises `PenstockError` or an error from httpx."""
        return self._results(funnel_id, query)

    flush = Sending._flush
    close = Sending._close
    _ask = Sending._request


class AsyncPenstock(Sending[Awaitable[Json]]):
    """Like `Penstock`, for asyncio: `async with AsyncPenstock(...) as penstock:`.

    With `spill_to`, each call writes a small file and blocks while it is synced to disk.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def results(self, funnel_id: str, **query: Unpack[ResultsQuery]) -> Results:
        """Like `Penstock.results`."""
        return await to_thread(self._results, funnel_id, query)

    async def flush(self, timeout_s: float = EXIT_S) -> bool:
        """Like `Penstock.flush`."""
        return await to_thread(self._flush, timeout_s)

    async def close(self, timeout_s: float = EXIT_S) -> bool:
        """Like `Penstock.close`."""
        return await to_thread(self._close, timeout_s)

    def _ask(self, method: str, url: str, **sent: Any) -> Awaitable[Json]:
        return to_thread(self._request, method, url, **sent)
