"""The client for asyncio."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import httpx

from penstock_sdk.calls import Json, read_answer
from penstock_sdk.client import EXIT_S
from penstock_sdk.sending import Sending


class AsyncPenstock(Sending[Awaitable[Json]]):
    """Sends events from a task of its own: `async with AsyncPenstock(...) as penstock:`.

    Options: see `Sending`. With `spill_to`, a call writes a small file, which blocks for its sync.
    """

    def _open(self, **http_options: Any) -> None:
        self._http = httpx.AsyncClient(**http_options)
        self._added, self._settled = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "AsyncPenstock":
        self._task = asyncio.create_task(self._deliver())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def flush(self, timeout_s: float = EXIT_S) -> bool:
        """Wait until everything is answered for. False if something still waits after the time."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.waiting:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            return False
        return True

    async def close(self, timeout_s: float = EXIT_S) -> bool:
        """Deliver what waits and stop. False if something is left, which `spill_to` keeps."""
        is_empty = await self.flush(timeout_s)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._http.aclose()
        return is_empty

    async def _ask(self, method: str, url: str, **sent: Any) -> Json:
        return read_answer(await self._http.request(method, url, **sent))

    def _wake(self) -> None:
        self._added.set()

    async def _deliver(self) -> None:
        while True:
            request = self._delivery.next_request()
            if request is None:
                self._added.clear()
                await self._added.wait()
                continue
            try:
                response = await self._http.post(request.path, json=request.body)
                wait_s = self._delivery.answered(request, response)
            except Exception:  # as in the client for threads
                wait_s = self._delivery.failed()
            self._settled.set()
            await asyncio.sleep(wait_s)
