"""Chooses the next request and handles its response. It does no I/O, so both clients can
share it.
"""

import logging
import random
import time
from collections.abc import Callable
from typing import NamedTuple

import httpx

from penstock_sdk.calls import Json, json_object
from penstock_sdk.events import BATCHES, Entry, Refusal
from penstock_sdk.outbox import Outbox

MAX_ITEMS, MAX_BYTES = 100, 1_000_000  # Penstock stores up to 100 rejected events per request.
_FIRST_RETRY_S, _LAST_RETRY_S, _DAY_S = 0.5, 30.0, 86_400.0
_RETRIED = frozenset({408, 425, 429})
# Statuses that a single event may have caused. Smaller batches then find that event.
_ABOUT_EVENTS = frozenset({400, 403, 413, 422})
_ADVICE = "Events wait. Check host, website_id, api_key and firewall."
_log = logging.getLogger("penstock_sdk")


class Request(NamedTuple):
    path: str
    body: Json
    entries: list[tuple[int, Entry]]


class Delivery:
    """Takes requests from an outbox, one at a time, so that they stay in order."""

    def __init__(self, outbox: Outbox, on_refused: Callable[[Refusal], None]) -> None:
        self._outbox, self._on_refused = outbox, on_refused
        self._max_items, self._failures = MAX_ITEMS, 0
        self._last_log, self._is_down, self._retry_at = ("", 0.0), False, 0.0

    def next_request(self) -> Request | None:
        """Return a request with the oldest entry, or with as many events as fit; None if the queue
        is empty.
        """
        waiting = self._outbox.first(self._max_items)
        if not waiting:
            return None
        path = waiting[0][1].path
        if path not in BATCHES:
            return Request(path, waiting[0][1].body, waiting[:1])
        size, batch = 0, list[tuple[int, Entry]]()
        for number, entry in waiting:
            size += len(entry.dump())
            if entry.path != path or (batch and size > MAX_BYTES):
                break
            batch.append((number, entry))
        return Request(BATCHES[path], {"events": [entry.body for _, entry in batch]}, batch)

    def record_error(self, error: Exception) -> float:
        """Handle a missing or unexpected response. Returns the seconds to wait."""
        is_known = isinstance(error, httpx.TransportError)  # other errors' text may contain the key
        self._log_fault(f"no answer ({type(error).__name__}).", None if is_known else error)
        return self.record_failure()

    def record_failure(self, retry_after: str | None = None) -> float:
        """Handle a missing response or a request to retry. Returns the seconds to wait."""
        backoff: float = min(_FIRST_RETRY_S * 2**self._failures, _LAST_RETRY_S)
        self._failures, self._is_down = min(self._failures + 1, 10), True
        stated = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
        return max(backoff * random.uniform(0.5, 1.0), min(stated, _DAY_S))

    def can_go_on(self) -> bool:
        """Whether other entries can be sent, because only some entries have to wait for a retry."""
        return not self._is_down and len(self._outbox) > len(self._outbox.postponed)

    def record_answer(self, request: Request, response: httpx.Response) -> float:
        """Handle a response. Returns the seconds before the next request, usually 0."""
        self._is_down = False
        status, answer, errors = _read(response)
        if status in _ABOUT_EVENTS and len(request.entries) > 1:
            self._max_items = (len(request.entries) + 1) // 2
            return 0.0
        # Remove events only if Penstock itself accepted or rejected them. A proxy's error page or a
        # wrong key must not remove any.
        is_refusal = status in _ABOUT_EVENTS and status != 403 and errors
        results = len(errors) or int("visitorId" in answer)
        if is_refusal or (200 <= status < 300 and results == len(request.entries)):
            self._max_items, self._failures = MAX_ITEMS, 0
            self._outbox.remove([number for number, _ in request.entries])
            for (_, entry), own_errors in zip(request.entries, errors, strict=False):
                if own_errors:
                    self._report(Refusal(entry.body, own_errors))
            return max(0.0, self._retry_at - time.monotonic()) if self._outbox.postponed else 0.0
        if 400 <= status < 500 and status not in _RETRIED:
            self._log_fault(f"answer {status}. {answer.get('detail', '')}")
            if status in _ABOUT_EVENTS:
                is_known = (number := request.entries[0][0]) in self._outbox.postponed
                self._outbox.postpone(number)
                self._retry_at = time.monotonic() + _LAST_RETRY_S
                # Other entries have to wait only after several consecutive failures.
                if is_known or not self._failures:
                    self._failures = max(self._failures, 1)
                    return _LAST_RETRY_S
            else:
                self._failures = 10
        return self.record_failure(response.headers.get("Retry-After"))

    def _report(self, refusal: Refusal) -> None:
        try:
            self._on_refused(refusal)
        except Exception:  # An error in the program's callback must not end the delivery.
            _log.exception("penstock_sdk: on_refused failed")

    def _log_fault(self, fault: str, error: Exception | None = None) -> None:
        """Log that the server accepts nothing, once an hour while the fault stays the same."""
        if (entry := (fault, time.monotonic() // 3_600)) != self._last_log:
            self._last_log = entry
            _log.error("penstock_sdk: %s %s", fault, _ADVICE, exc_info=error)


def _read(response: httpx.Response) -> tuple[int, Json, list[list[Json]]]:
    """Parse a response into its status, body and each entry's errors.

    A key for another website gets 403, even in a batch.
    """
    status, answer = response.status_code, json_object(response) or {}
    # Penstock's codes are strings, whereas a gateway's code is a number.
    problem = [answer] if isinstance(answer.get("code"), str) else []
    results = answer.get("results", []) if status < 300 else problem
    own = [{"code": answer.get("code"), "message": answer.get("detail")}] if status >= 300 else []
    errors = [result.get("errors") or own for result in results if isinstance(result, dict)]
    for error in (error for item in errors for error in item):
        if error.get("code") in ("website_not_owned", "website_not_of_key"):
            return 403, {"detail": error["message"]}, errors
    return status, answer, errors
