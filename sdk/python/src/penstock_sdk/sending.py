"""The calls that queue events: the same for both clients."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, Unpack

from penstock_sdk import calls, events
from penstock_sdk.delivery import Delivery
from penstock_sdk.outbox import Outbox

Answer = TypeVar("Answer", bound=dict[str, Any] | Awaitable[dict[str, Any]])
_log_refusal = partial(logging.getLogger("penstock_sdk").warning, "%s")


class Sending(ABC, Generic[Answer]):
    """Events wait in the outbox until a subclass has delivered them."""

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
        """api_key: with the scope `ingest`, and `read` for results. spill_to: a folder that keeps
        events over the death of the process. max_waiting: beyond it, calls raise `Full`.
        on_refused: called with each event that the server refuses.
        """
        self._website_id = website_id
        self._outbox = Outbox(None if spill_to is None else Path(spill_to), max_waiting)
        self._delivery = Delivery(self._outbox, on_refused)
        self._open(base_url=host, headers={"Authorization": f"Bearer {api_key}"}, timeout=30.0)

    @abstractmethod
    def _open(self, **http_options: Any) -> None: ...

    @property
    def waiting(self) -> int:
        """How many entries have no answer yet."""
        return len(self._outbox)

    def track(self, event: str, **fields: Unpack[events.EventFields]) -> None:
        """Queue an event. `Full` when too many wait; ValueError for what cannot be sent."""
        self._add(events.event_entry(events.EVENTS, self._website_id, event, fields))

    def transaction(self, event: str, **fields: Unpack[events.TransactionFields]) -> None:
        """Queue a transaction, such as `purchase`."""
        self._add(events.event_entry(events.TRANSACTIONS, self._website_id, event, fields))

    def identify(
        self, user_id: str, visitor_id: str, traits: Mapping[str, events.JSON] | None = None
    ) -> None:
        """Queue the link of a visitor to a user, after all events before it."""
        self._add(events.identify_entry(self._website_id, user_id, visitor_id, traits))

    def results(self, funnel_id: str, **query: Unpack[calls.ResultsQuery]) -> Answer:
        """The results of a saved funnel. `PenstockError`, or httpx's errors without an answer."""
        return self._ask("GET", f"/api/funnels/{funnel_id}/results", params=calls.params(query))

    def import_file(self, content: bytes, *, file_name: str | None = None) -> Answer:
        """Start an import of NDJSON. Ask `import_state` with its `id` how far it is."""
        params = calls.params({"website_id": self._website_id, "file_name": file_name})
        headers = {"Content-Type": "application/x-ndjson"}
        return self._ask("POST", "/api/imports", params=params, content=content, headers=headers)

    def import_state(self, import_id: str) -> Answer:
        return self._ask("GET", f"/api/imports/{import_id}")

    def _add(self, entry: events.Entry) -> None:
        self._outbox.add(entry)
        self._wake()

    @abstractmethod
    def _wake(self) -> None: ...

    @abstractmethod
    def _ask(self, method: str, url: str, **sent: Any) -> Answer: ...
