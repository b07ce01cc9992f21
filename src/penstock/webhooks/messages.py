"""Makes messages of a unit's outcome now, and of what a webhook has said before. No I/O."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from msgspec import json

from penstock.base.clock import iso
from penstock.base.ids import new_id
from penstock.base.scalar import Scalar
from penstock.funnels.changes import UnitOutcome
from penstock.webhooks.model import KnownUnit, NewMessage, OutcomeTimes, Webhook, WebhookEvent

_STEP = "step "
"""Name of the completion of a step, followed by its number."""


class Rules(NamedTuple):
    """The rules for the messages of a webhook.

    definition: hash of the funnel's definition. steps: number of its steps. now_ms: evaluation
    time. from_ms: earlier outcomes are not sent. properties: those whose values may be sent.
    """

    webhook: Webhook
    definition: str
    steps: int
    now_ms: int
    from_ms: int
    properties: tuple[str, ...]

    @property
    def expiring_ms(self) -> int | None:
        seconds = self.webhook.expiring_before_seconds
        return None if seconds is None else seconds * 1000


class _Outcome(NamedTuple):
    """An outcome of a unit. is_news: whether it is worth a message if there was none."""

    at_ms: int
    is_news: bool = True


def messages_of(
    rules: Rules, unit: int, outcome: UnitOutcome | None, known: OutcomeTimes
) -> tuple[KnownUnit | None, list[NewMessage]]:
    """Return what the webhook has said about a unit after these messages, and the messages.

    outcome: None if the unit has not entered. known: what it said before. The first result is None
    if nothing changes.
    """
    facts, said, messages = _facts(rules, outcome), dict(known), list[NewMessage]()
    for name, fact in facts.items():
        is_first = name not in known
        if is_first and not (fact.is_news and fact.at_ms >= rules.from_ms):
            continue
        if is_first or known[name] is None or _moved(name, known[name], fact):
            said[name] = fact.at_ms
            corrects = None if is_first else _first_id(rules, unit, name)
            messages += _message(rules, unit, name, fact.at_ms, outcome, corrects)
    for name, at_ms in known.items():
        is_off = name == WebhookEvent.EXPIRING and rules.expiring_ms is None
        if at_ms is not None and name not in facts and not is_off:
            said[name] = None
            corrects = _first_id(rules, unit, name)
            messages += _message(rules, unit, name, at_ms, outcome, corrects, is_withdrawn=True)
    if said == known:
        return None, []
    last_ms = max(
        (at for each in (said, known) for at in each.values() if at is not None), default=0
    )
    return KnownUnit(unit, said, last_ms), messages


def _moved(name: str, known_ms: int | None, fact: _Outcome) -> bool:
    """Whether the time of an outcome has changed. That of a warning does not matter."""
    return name != WebhookEvent.EXPIRING and known_ms != fact.at_ms


def _first_id(rules: Rules, unit: int, name: str) -> str:
    """Return the ID of the first message about an outcome, which is always the same."""
    text = f"{rules.webhook.id} {rules.definition} {unit} {name}"
    return "msg_" + blake2b(text.encode(), digest_size=13).hexdigest()


def _facts(rules: Rules, outcome: UnitOutcome | None) -> Mapping[str, _Outcome]:
    """Return all outcomes of a unit at the evaluation time, in their order."""
    if outcome is None:
        return {}
    done, now_ms = outcome.done_ms, rules.now_ms
    facts = {str(WebhookEvent.ENTERED): _Outcome(done[0])}
    facts |= {f"{_STEP}{step}": _Outcome(at_ms) for step, at_ms in enumerate(done[1:], start=2)}
    is_complete = len(done) == rules.steps
    ended_ms = [done[-1]] if is_complete else []
    ended_ms += [] if outcome.excluded_ms is None else [outcome.excluded_ms]
    if is_complete:
        facts[WebhookEvent.COMPLETED] = _Outcome(done[-1])
    elif not ended_ms and now_ms > outcome.window_end_ms:
        facts[WebhookEvent.DROPPED_OFF] = _Outcome(outcome.window_end_ms)
    if rules.expiring_ms is not None:
        warned_ms = max(done[0], outcome.window_end_ms - rules.expiring_ms)
        if warned_ms <= now_ms and all(at_ms > warned_ms for at_ms in ended_ms):
            is_open = not ended_ms and now_ms <= outcome.window_end_ms
            facts[WebhookEvent.EXPIRING] = _Outcome(warned_ms, is_open)
    return facts


def _message(
    rules: Rules,
    unit: int,
    name: str,
    at_ms: int,
    outcome: UnitOutcome | None,
    corrects: str | None,
    *,
    is_withdrawn: bool = False,
) -> Iterator[NewMessage]:
    """Yield the message about an outcome, if the webhook wants its type."""
    is_step = name.startswith(_STEP)
    event = WebhookEvent.STEP_COMPLETED if is_step else WebhookEvent(name)
    if event not in rules.webhook.events:
        return
    is_first = corrects is None
    message_id = _first_id(rules, unit, name) if is_first else new_id("msg", rules.now_ms)
    body = {
        "id": message_id,
        "type": event,
        "timestamp": iso(at_ms),
        "corrects": corrects,
        "withdrawn": is_withdrawn,
        "data": {
            "funnelId": rules.webhook.funnel_id,
            "step": int(name.removeprefix(_STEP)) if is_step else None,
            **_contents(rules, outcome),
        },
    }
    scope_id, visitor_id = (outcome and outcome.visitor) or (None, None)
    yield NewMessage(message_id, scope_id, visitor_id, at_ms, body)


def _contents(rules: Rules, outcome: UnitOutcome | None) -> Mapping[str, object]:
    if outcome is None:
        return {}
    return {
        "unit": outcome.name,
        "userId": outcome.user_id,
        "stepsCompletedAt": [iso(at_ms) for at_ms in outcome.done_ms],
        "windowEndsAt": iso(outcome.window_end_ms),
        "cohort": _shared(outcome.values, rules.properties),
    }


def request_of(bodies: Iterable[str], properties: Sequence[str]) -> bytes:
    """Return the body of a request with messages that waited.

    properties: those whose values may be sent by now.
    """
    messages = [json.decode(body) for body in bodies]
    for message in messages:
        if "cohort" in message["data"]:
            message["data"]["cohort"] = _shared(message["data"]["cohort"], properties)
    return json.encode(messages)


def _shared(
    values: Mapping[str, Scalar | None], properties: Sequence[str]
) -> Mapping[str, Scalar | None]:
    return {name: value for name, value in values.items() if name in properties}
