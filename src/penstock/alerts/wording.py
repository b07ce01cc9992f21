"""Writes the messages of alerts."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from pydantic.alias_generators import to_camel

from penstock.accounts.workspace.service import WorkspaceService
from penstock.alerts.changes import Change
from penstock.alerts.checks import condition_of
from penstock.alerts.model import Alert, Comparison, ConditionKind, Message, MessageKind
from penstock.alerts.schema import ConditionIn
from penstock.base.calendar import local_time, period_from
from penstock.base.clock import iso, parse_time
from penstock.base.errors import PenstockError
from penstock.base.rates import level_words, percent
from penstock.base.wording import utc_time
from penstock.funnels.definitions.ad_hoc import describe_window
from penstock.funnels.forecasts.schema import ForecastRecord
from penstock.funnels.hidden_values import hide_in_sentences
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.schema import PeriodQuery
from penstock.funnels.questions import VERDICT
from penstock.funnels.results.schema import ResultsQuery
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.shown_forecasts import ShownForecast, shown_forecast
from penstock.funnels.verdicts import VerdictQuery

_PAGES = {
    ConditionKind.SILENCE: "/live",
    ConditionKind.REJECTIONS: "/refused",
    ConditionKind.LAG: "/system",
}
_SUBJECTS = {
    MessageKind.RECOVERY: "back to normal",
    MessageKind.CORRECTION: "correction of an alert",
    MessageKind.TEST: "test",
}
"""Subjects of messages that do not depend on figures, as those of alarms do."""
_NOT_OF_PAGE = ("interval", "fromStep", "toStep")
_VALUES = ("filters", "cohort")
"""Parameters that name values of properties."""


class MessageWriter:
    """Writes messages from the figures of a check. Its methods block.

    The sentences are those of the verdict on the period, as far as the contents policy of the
    workspace allows.
    """

    def __init__(
        self,
        runner: FunnelQueryRunner,
        funnels: FunnelService,
        workspaces: WorkspaceService,
        base_url: str,
    ) -> None:
        self._runner, self._funnels, self._workspaces = runner, funnels, workspaces
        self._base_url = base_url

    def write(self, alert: Alert, change: Change, message_id: str) -> Message:
        """Return the message about a change."""
        condition, figures = condition_of(alert), change.period.figures
        kind = change.message or MessageKind.TEST
        lines = self._lines(alert, condition, figures, kind)
        explained: dict[str, list[str]] = {}
        if condition.kind is ConditionKind.RATE and kind is MessageKind.ALARM:
            explained = self._verdict_lines(alert, condition, figures)
            lines += explained
        subject = _SUBJECTS.get(kind) or _short(condition, figures)
        if condition.kind is ConditionKind.RATE:
            figures = {**figures, "receipt": self._receipt(alert, condition, figures)}
        if kind is MessageKind.TEST:
            lines.insert(0, "This is a test message.")
        return Message(
            subject=f"{alert.name}: {subject}",
            lines=tuple(lines),
            link=self._link(alert, condition, figures, message_id),
            figures={
                "alertId": alert.id, "alert": alert.name, "kind": kind, "messageId": message_id,
                "condition": condition.kind, "when": condition.when, **figures,
            },
            corrects=change.corrects,
            stated={line: properties for line, properties in explained.items() if properties},
        )  # fmt: skip

    def report_path(self, alert: Alert, figures: Mapping[str, Any]) -> str:
        """Return the path of the page that shows figures, with all parameters."""
        condition = condition_of(alert)
        if condition.kind is not ConditionKind.RATE:
            return _PAGES[condition.kind]
        query = urlencode(self._report_parameters(condition, figures))
        return f"/funnels/{condition.funnel_id}?{query}"

    def _report_parameters(
        self, condition: ConditionIn, figures: Mapping[str, Any]
    ) -> dict[str, str]:
        parameters = {
            name: value for name, value in condition.parameters.items() if name not in _NOT_OF_PAGE
        }
        period = {"startAt": "startAt", "endAt": "endAt", "asOf": "evaluatedAt"}
        return parameters | {
            name: figures[figure] for name, figure in period.items() if figure in figures
        }

    def _question(
        self, query: type[PeriodQuery], condition: ConditionIn, figures: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the parameters of the report that a question has."""
        known = {to_camel(name) for name in query.model_fields}
        selected = self._report_parameters(condition, figures).items()
        return {name: value for name, value in selected if name in known}

    def _receipt(
        self, alert: Alert, condition: ConditionIn, figures: Mapping[str, Any]
    ) -> str | None:
        """Return the address of the newest receipt of the report; None without one."""
        if "startAt" not in figures:
            return None
        with suppress(PenstockError):  # The rate is more important than its receipt.
            query = ResultsQuery.model_validate(self._question(ResultsQuery, condition, figures))
            context = self._runner.prepare_saved(
                alert.workspace_id, condition.funnel_id or "", query
            )
            return self._runner.receipt(context)
        return None

    def _lines(
        self, alert: Alert, condition: ConditionIn, figures: Mapping[str, Any], kind: MessageKind
    ) -> list[str]:
        lines = [_corrected(condition, figures)] if kind is MessageKind.CORRECTION else []
        match condition.kind:
            case ConditionKind.RATE if figures:
                lines += self._rate_lines(alert, condition, figures)
            case ConditionKind.SILENCE:
                seen = utc_time(parse_time(figures["lastSeenAt"]))
                lines += [
                    f"The last event {condition.event} occurred at {seen}.",
                    f"The alert waits for one every {condition.minutes} minutes.",
                ]
            case ConditionKind.REJECTIONS if figures:
                lines += [
                    f"{percent(figures['rate'])} of {figures['received']:,} events were rejected "
                    f"between {utc_time(parse_time(figures['startAt']))} and "
                    f"{utc_time(parse_time(figures['endAt']))}.",
                    f"The level of the alert is {level_words(figures['level'])}.",
                ]
            case ConditionKind.LAG:
                lines += [
                    "The oldest event that waits for the event store has waited for "
                    f"{figures['minutes']:g} minutes.",
                    f"The alert allows {condition.minutes} minutes.",
                ]
        return lines

    def _rate_lines(
        self, alert: Alert, condition: ConditionIn, figures: Mapping[str, Any]
    ) -> list[str]:
        """State the rate, what it can still become, and what it was compared with."""
        funnel = self._funnels.get(alert.workspace_id, condition.funnel_id or "").name
        when, parameters = _when(condition, figures), condition.parameters
        if "rate" not in figures:
            return [f"Too few units entered {funnel} {when}: fewer than {condition.min_units}."]
        done = f"completed {funnel}"
        if "fromStep" in parameters:
            steps = f"step {parameters['fromStep']} to step {parameters['toStep']}"
            done = f"continued from {steps} of {funnel}"
        if "window" in parameters:
            done += f" within {describe_window(parameters['window'])}"
        units = f"{figures['units']:,} {figures['unit']}s"
        lines = [f"{percent(figures['rate'])} of the {units} that entered {when} {done}."]
        lowest, highest = figures["lowest"], figures["highest"]
        if lowest < highest:
            lines.append(
                f"Some may still do so: the final rate will be between {percent(lowest)} and "
                f"{percent(highest)}."
            )
        if (shown := _forecast(figures)) is not None:
            lines.append(f"The rate will settle at {shown.text}; {shown.record}.")
        if "level" in figures:
            lines.append(f"The level of the alert is {level_words(figures['level'])}.")
        if "least" in figures:
            weeks = "of the eight weeks before"
            if parameters.get("interval") != "week":
                weeks = "of the same weekday in the eight weeks before"
            lines.append(
                f"The rates {weeks} are between {percent(figures['least'])} and "
                f"{percent(figures['greatest'])}."
            )
        if any(name in parameters for name in (*_VALUES, "segment")):
            lines.append("The alert counts only part of the entries: those that it selects.")
        return lines

    def _verdict_lines(
        self, alert: Alert, condition: ConditionIn, figures: Mapping[str, Any]
    ) -> dict[str, list[str]]:
        """Return the sentences of the verdict on the period, compared with the week before, with
        the properties whose values they state. It leaves out the rate without a change, which
        stands above them.
        """
        parameters = self._question(VerdictQuery, condition, figures)
        zone = ZoneInfo(condition.parameters.get("timezone", "UTC"))
        start, end = (local_time(parse_time(figures[name]), zone) for name in ("startAt", "endAt"))
        start_ms, end_ms = period_from(start - timedelta(days=7), end - start, zone)
        parameters |= {"compareStartAt": iso(start_ms), "compareEndAt": iso(end_ms)}
        with suppress(PenstockError):  # The rate is more important than what explains it.
            query = VerdictQuery.model_validate(parameters)
            verdict = VERDICT.ask(
                self._runner, alert.workspace_id, condition.funnel_id or "", query
            )
            shared = self._workspaces.shared_contents(alert.workspace_id).properties
            return {
                text.replace("in the earlier period", "a week before"): [
                    name
                    for phrase in sentence.phrases
                    for name in phrase.properties
                    if name in shared
                ]
                for sentence in verdict.sentences
                for text in hide_in_sentences([sentence], shared)
                if not text.endswith(" completed.")
            }
        return {}

    def _link(
        self, alert: Alert, condition: ConditionIn, figures: Mapping[str, Any], message_id: str
    ) -> str:
        """Return the address of the report. If it would name values of properties that may not
        leave the dashboard, return an address that only members can open, and that leads to it.
        """
        if any(name in condition.parameters for name in _VALUES):
            return f"{self._base_url}/alerts/messages/{message_id}"
        return self._base_url + self.report_path(alert, figures)


def _corrected(condition: ConditionIn, figures: Mapping[str, Any]) -> str:
    at = utc_time(parse_time(figures["alarmedAt"]))
    causes = "late events, a merge or a deletion"
    if condition.when is not None and condition.when.is_forecast:
        causes = "what happened since then"
    return (
        f"The alert of {at} no longer holds: {causes} changed the figures. These are the new ones."
    )


def _forecast(figures: Mapping[str, Any]) -> ShownForecast | None:
    record = figures.get("forecast")
    return None if record is None else shown_forecast(ForecastRecord.model_validate(record))


def _when(condition: ConditionIn, figures: Mapping[str, Any]) -> str:
    """Return the words for a period: `on Monday, 3 November 2026`."""
    zone = ZoneInfo(condition.parameters.get("timezone", "UTC"))
    at = datetime.fromtimestamp(parse_time(figures["startAt"]) / 1000, zone)
    day = f"{at.day} {at:%B %Y}"
    if condition.parameters.get("interval") == "week":
        return f"in the week of {day}"
    return f"on {at:%A}, {day}"


def _short(condition: ConditionIn, figures: Mapping[str, Any]) -> str:
    """Return an alarm in a few words."""
    match condition.kind:
        case ConditionKind.RATE:
            comparison, shown = "unusual", _forecast(figures)
            if condition.when is not None and condition.when is not Comparison.UNUSUAL:
                comparison = f"{condition.when.side} {level_words(figures['level'])}"
            rate = f"{shown.about} expected" if shown else percent(figures["rate"])
            return f"{rate} {_when(condition, figures)}, {comparison}"
        case ConditionKind.SILENCE:
            return f"no event {condition.event} for more than {condition.minutes} minutes"
        case ConditionKind.REJECTIONS:
            return f"{percent(figures['rate'])} of the events are rejected"
        case ConditionKind.LAG:
            return f"events wait for more than {condition.minutes} minutes"
