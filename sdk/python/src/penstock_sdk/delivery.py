"""What to send next, and what an answer means. No I/O: both clients share it."""

import logging
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx

from penstock_sdk.calls import json_object
from penstock_sdk.events import BATCH, EVENTS, Entry, Refusal
from penstock_sdk.outbox import Outbox

MAX_ITEMS, MAX_BYTES = 500, 1_000_000
_FIRST_RETRY_S, _LAST_RETRY_S = 0.5, 30.0
_RETRIED = frozenset({408, 425, 429})


class Request(NamedTuple):
    path: str
    body: dict[str, Any]
    entries: list[tuple[int, Entry]]


class Delivery:
    """Takes requests from an outbox, one at a time, so that the order stays."""

    def __init__(self, outbox: Outbox, on_refused: Callable[[Refusal], None]) -> None:
        self._outbox, self._on_refused = outbox, on_refused
        self._max_items, self._failures = MAX_ITEMS, 0

    def next_request(self) -> Request | None:
        """The oldest entry, or as many events as fit into one request; None when nothing waits."""
        waiting = self._outbox.first(self._max_items)
        if not waiting:
            return None
        path = waiting[0][1].path
        if path != EVENTS:
            return Request(path, waiting[0][1].body, waiting[:1])
        size, batch = 0, list[tuple[int, Entry]]()
        for number, entry in waiting:
            size += len(entry.dump())
            if entry.path != EVENTS or (batch and size > MAX_BYTES):
                break
            batch.append((number, entry))
        return Request(BATCH, {"events": [entry.body for _, entry in batch]}, batch)

    def failed(self, retry_after: str | None = None) -> float:
        """There was no answer, or one that asks to come again: the seconds to wait."""
        backoff: float = min(_FIRST_RETRY_S * 2**self._failures, _LAST_RETRY_S)
        self._failures = min(self._failures + 1, 10)
        stated = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
        return max(backoff * random.uniform(0.5, 1.0), stated)

    def answered(self, request: Request, response: httpx.Response) -> float:
        """Take the answer in. The seconds to wait before the next request, mostly 0."""
        status, answer = response.status_code, json_object(response)
        # Only an answer of Penstock removes events: not a redirect, nor the page of a proxy.
        is_foreign = status < 400 and (status >= 300 or answer is None)
        if status >= 500 or status in _RETRIED or status < 200 or is_foreign:
            return self.failed(response.headers.get("Retry-After"))
        self._failures = 0
        if status >= 300 and len(request.entries) > 1:
            self._max_items = (len(request.entries) + 1) // 2  # One of them spoils it: find it.
            return 0.0
        self._max_items = MAX_ITEMS
        self._outbox.remove([number for number, _ in request.entries])
        for (_, entry), errors in zip(request.entries, _errors(status, answer or {}), strict=False):
            if errors:
                self._report(Refusal(entry.body, errors))
        return 0.0

    def _report(self, refusal: Refusal) -> None:
        try:
            self._on_refused(refusal)
        except Exception:  # an error of the program's own must not end the delivery
            logging.getLogger("penstock_sdk").exception("on_refused failed")


def _errors(status: int, answer: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The errors of each entry of the request."""
    if status < 300:
        return [result.get("errors") or [] for result in answer.get("results", [])]
    detail = answer.get("detail") or f"status {status}"
    return [answer.get("errors") or [{"field": "", "message": detail}]]
