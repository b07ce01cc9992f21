"""Calls that queue events, and the thread that delivers them. Both clients share this module."""

import atexit
import logging
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, Unpack

import httpx

from penstock_sdk import calls, events, results
from penstock_sdk.delivery import Delivery
from penstock_sdk.outbox import Outbox

Answer = TypeVar("Answer", bound=calls.Json | Awaitable[calls.Json])
EXIT_S = 10.0  # maximum seconds for the last deliveries when the process ends
_log_refusal = partial(logging.getLogger("penstock_sdk").warning, "penstock_sdk: %s")


class Sending(ABC, Generic[Answer]):
    """Queues events in the outbox, and delivers them in a thread.

    Queued events are also delivered when the process ends. After SIGTERM, this works only if the
    main thread created the client and the program does not handle SIGTERM itself.
    """

    def __init__(
        self,
        host: str,
        *,
        api_key: str,
        website_id: str,
        spill_to: str | Path | None = None,
        max_waiting: int = 10_000,
        on_refused: Callable[[events.Refusal], None] = _log_refusal,
    ) -> None:
        """api_key: key with the scope `ingest`; `results` also needs the scope `read`. spill_to: a
        folder that stores queued events, so that they survive the process. max_waiting: maximum
        number of queued events; beyond it, calls raise `Full`. on_refused: called with each event
        that the server rejects.
        """
        if not host.startswith(("http://", "https://")):
            raise ValueError(f"host {host!r} needs its scheme, such as https://penstock.example")
        self._website_id = website_id
        self._outbox = Outbox(None if spill_to is None else Path(spill_to), max_waiting)
        self._delivery = Delivery(self._outbox, on_refused)
        headers = {"Authorization": f"Bearer {api_key}"}
        self._http = httpx.Client(base_url=host, headers=headers, timeout=30.0)
        self._changed, self._is_closing = threading.Condition(), False
        self._thread = threading.Thread(target=self._deliver, name="penstock", daemon=True)
        self._thread.start()
        atexit.register(self._close)
        _exit_at_sigterm()

    @property
    def waiting(self) -> int:
        """Number of queued entries that the server has not acknowledged yet."""
        return len(self._outbox)

    def track(self, event: str, **fields: Unpack[events.EventFields]) -> None:
        """Queue an event. Raises `Full` if the queue is full, and `ValueError` if the event is
        invalid.
        """
        self._add(events.event_entry(events.EVENTS, self._website_id, event, fields))

    def transaction(self, event: str, **fields: Unpack[events.TransactionFields]) -> None:
        """Queue a transaction, such as `purchase`."""
        self._add(events.event_entry(events.TRANSACTIONS, self._website_id, event, fields))

    def track_item(self, item_type: events.ItemType, **fields: Unpack[events.ItemFields]) -> None:
        """Queue an item that a page or an app would otherwise send, such as a page view."""
        self._add(events.item_entry(self._website_id, item_type, fields))

    def attempt(
        self, attempt_id: str, *, attempt_property: str, sequence_property: str, after: int
    ) -> "Attempt":
        """Continue an attempt that a browser started. after: sequence number of its last event."""
        return Attempt(self, attempt_id, attempt_property, sequence_property, after)

    def identify(
        self,
        user_id: str | int,
        visitor_id: str | int,
        traits: Mapping[str, events.JSON] | None = None,
    ) -> None:
        """Queue a call that links a visitor to a user. It is sent after all earlier events."""
        self._add(events.identify_entry(self._website_id, user_id, visitor_id, traits))

    def _results(self, funnel_id: str, query: results.ResultsQuery) -> results.Results:
        path = f"/api/funnels/{funnel_id}/results"
        params = events.named({"website_id": self._website_id, **query})
        return results.Results(self._request("GET", path, params=params))

    def import_file(self, content: bytes, *, file_name: str | None = None) -> Answer:
        """Start an import of NDJSON. To follow its progress, pass its `id` to `import_state`."""
        params = events.named({"website_id": self._website_id, "file_name": file_name})
        headers = {"Content-Type": "application/x-ndjson"}
        return self._ask("POST", "/api/imports", params=params, content=content, headers=headers)

    def import_state(self, import_id: str) -> Answer:
        return self._ask("GET", f"/api/imports/{import_id}")

    @abstractmethod
    def _ask(self, method: str, url: str, **sent: Any) -> Answer: ...

    def _request(self, method: str, url: str, **sent: Any) -> calls.Json:
        return calls.read_answer(self._http.request(method, url, **sent))

    def _add(self, entry: events.Entry) -> None:
        self._outbox.add(entry)
        with self._changed:
            self._changed.notify_all()

    def _flush(self, timeout_s: float = EXIT_S) -> bool:
        """Wait until the server has answered every entry. Returns False after a timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.waiting, timeout_s)

    def _close(self, timeout_s: float = EXIT_S) -> bool:
        """Deliver queued events and stop. Returns False if any are left; `spill_to` keeps them."""
        is_empty = self._flush(timeout_s)
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        self._http.close()
        atexit.unregister(self._close)
        return is_empty

    def _deliver(self) -> None:
        can_go_on = self._delivery.can_go_on
        while not self._is_closing:
            wait_s = self._send_next()
            with self._changed:
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_closing or can_go_on(), wait_s)

    def _send_next(self) -> float | None:
        """Send one request. Returns seconds until the next request; None if nothing is queued."""
        request = self._delivery.next_request()
        if request is None:
            return None
        # Omit the SDK's User-Agent, because the server would attribute it to the visitor.
        headers = {"User-Agent": ""} if request.path == events.TRACK else {}
        try:
            response = self._http.post(request.path, json=request.body, headers=headers)
            return self._delivery.record_answer(request, response)
        except Exception as error:  # no error may end the delivery thread
            return 0.0 if self._is_closing else self._delivery.record_error(error)


class Attempt:
    """Continues a browser's attempt: adds its ID and the next number to each event. Thread-safe."""

    def __init__(
        self, penstock: Sending[Any], attempt_id: str, property_: str, sequence: str, after: int
    ) -> None:
        self._penstock, self._own = penstock, {property_: attempt_id}
        self._sequence, self._numbers, self._lock = sequence, after, threading.Lock()

    @property
    def last_number(self) -> int:
        """The sequence number of the last event. The browser client calls it `lastNumber`."""
        return self._numbers

    def track(self, event: str, **fields: Unpack[events.EventFields]) -> None:
        """Like the client's `track`, within this attempt."""
        with self._lock:
            self._numbers = number = self._numbers - self._numbers % 1_000 + 1_000
        own: dict[str, events.JSON] = {**self._own, self._sequence: number}
        fields["properties"] = {**(fields.get("properties") or {}), **own}
        self._penstock.track(event, **fields)


def _exit_at_sigterm() -> None:
    """Exit cleanly on SIGTERM, unless the program handles the signal itself."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
