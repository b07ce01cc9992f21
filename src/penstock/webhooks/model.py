"""Plain types for webhooks. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from penstock.base.ids import WorkspaceId
from penstock.funnels.outcomes.model import LAST_UNIT, DuePosition, RowPosition
from penstock.settings import DAY_S

MAX_WEBHOOKS = 20
"""Maximum number of webhooks of a workspace."""
MAX_MESSAGES = 100
"""Maximum number of messages in one request."""
MAX_WAITING = 10_000
"""Number of waiting messages of a webhook from which no more are made. They are made later, because
outcomes are stored anyway.
"""
RETRIED_MS = 3 * DAY_S * 1000
"""Time for which a message is sent again if deliveries fail."""
REMEMBERED_MS = 30 * DAY_S * 1000
"""Age up to which outcomes are sent and corrected."""
MAX_UNITS = 500_000
"""Maximum number of units that a webhook remembers."""
MAX_DELIVERIES = 200
"""Number of deliveries in a webhook's log."""


_SAVED_EVERY_MS = 60_000


class WebhookEvent(StrEnum):
    """The type of a message.

    entered: a unit has entered. step_completed: it has completed a step after the first one.
    completed: it has completed the last step. dropped_off: its window has ended before that.
    expiring: its window ends soon.
    """

    ENTERED = "entered"
    STEP_COMPLETED = "step_completed"
    COMPLETED = "completed"
    DROPPED_OFF = "dropped_off"
    EXPIRING = "expiring"


class Position(NamedTuple):
    """Up to where a webhook has read stored outcomes.

    rules: hash of the definition; '' before the first time. rows: changes. dropped, expiring: units
    whose time has come.
    """

    rules: str = ""
    evaluated_at_ms: int = 0
    rows: RowPosition = RowPosition()
    dropped: DuePosition = DuePosition()
    expiring: DuePosition = DuePosition()

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read."""
        return any(each.unit != LAST_UNIT for each in (self.rows, self.dropped, self.expiring))

    def is_outdated(self, moved: "Position") -> bool:
        """Whether a position after it should be saved, although it only confirms that nothing has
        changed.
        """
        return (self.rules, self.rows.build) != (
            moved.rules,
            moved.rows.build,
        ) or moved.evaluated_at_ms - self.evaluated_at_ms >= _SAVED_EVERY_MS


class Webhook(NamedTuple):
    """A webhook, with the state of its deliveries.

    events: types of its messages. expiring_before_seconds: before the end of the window. starts_at:
    earlier outcomes are not sent. position: JSON of a `Position`. problem: why no messages are
    made. failures: deliveries that failed since one succeeded. batch: messages of the delivery that
    was begun; 0 for none. took: time of the last delivery, in milliseconds.
    """

    id: str
    workspace_id: WorkspaceId
    name: str
    url: str
    funnel_id: str
    events: tuple[WebhookEvent, ...]
    created_at_ms: int
    updated_at_ms: int
    starts_at_ms: int
    website_id: str | None = None
    expiring_before_seconds: int | None = None
    position: str = ""
    paused_at_ms: int | None = None
    problem: str | None = None
    failures: int = 0
    failing_since_ms: int | None = None
    next_try_at_ms: int = 0
    batch: int = 0
    lease: str = ""
    leased_until_ms: int = 0
    took_ms: int = 0


class WaitingMessage(NamedTuple):
    """A message that waits for its delivery. number: their order."""

    number: int
    id: str
    body: str
    created_at_ms: int


class Delivery(NamedTuple):
    """A request to a receiver.

    message_id: ID of the request. status: None without a response. text: the start of the response,
    or why there was none. took_ms: duration.
    """

    at_ms: int
    message_id: str
    messages: int
    text: str
    took_ms: int
    status: int | None = None

    @property
    def is_accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


OutcomeTimes = dict[str, int | None]
"""The time of each outcome of a unit, by the outcome's name; None if it was withdrawn."""


class KnownUnit(NamedTuple):
    """A unit that a webhook has sent. last_at_ms: time of its newest outcome.

    facts: the times of its outcomes that messages were made of.
    """

    unit: int
    facts: OutcomeTimes
    last_at_ms: int


class NewMessage(NamedTuple):
    """A message to add. scope_id, visitor_id: the visitor of the unit, if known. at_ms: time of the
    outcome.
    """

    id: str
    scope_id: str | None
    visitor_id: str | None
    at_ms: int
    body: Mapping[str, object]
