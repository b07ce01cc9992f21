"""Counts a funnel by the rules of another tool, and explains the difference unit by unit."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from penstock.funnels.other_tools import words
from penstock.funnels.other_tools.rules import (
    RULES_OF,
    Comparison,
    Switch,
    compare,
    rules_of,
)
from penstock.funnels.other_tools.schema import (
    CountLikeRecord,
    DifferenceRecord,
    LikeQuery,
    ShownRecord,
)
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.statements.other_tools import MAX_NAMED_UNITS, Rules, compared

Switches = tuple[Switch, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why results of units differ: sets of rules, each of which explains them.

    sets: empty if more than two rules are needed.
    """

    sets: tuple[Switches, ...]

    @property
    def name(self) -> str:
        return "-or-".join("-and-".join(each) for each in self.sets) or "several"

    @property
    def rules(self) -> list[str]:
        used = {switch for each in self.sets for switch in each}
        return [switch for switch in Switch if switch in used] or ["several"]


def count_like(
    runner: FunnelQueryRunner, context: QueryContext, query: LikeQuery
) -> CountLikeRecord | None:
    """Return the numbers by the rules of the tool that the query names; None if it names none.

    Raises Invalid if a rule of the tool is unknown or not counted.
    """
    if query.count_like is None:
        return None
    comparison = compare(query.count_like, query.mode, context.definition, context.params)
    rows = list(_explained(runner, context, comparison))
    totals: Counter[str] = Counter()
    by_reason: dict[Reason, Counter[str]] = {}
    for row, reason in rows:
        units, completed = row["units"], (row["completed_there"], row["completed_here"])
        counts = Counter(
            units=units,
            only_there=units * (completed == (1, 0)),
            only_here=units * (completed == (0, 1)),
        )
        totals += counts + Counter(
            entered=units * row["entered_there"],
            completed=units * row["completed_there"],
            entered_here=units * row["entered_here"],
            completed_here=units * row["completed_here"],
            same_units=units * (not row["differs"]),
        )
        if reason is not None:
            by_reason.setdefault(reason, Counter()).update(counts)
    figures = {
        name: totals[name]
        for name in (
            *("entered", "completed", "entered_here", "completed_here"),
            *("only_there", "only_here", "same_units"),
        )
    }
    reasons = [
        DifferenceRecord(
            reason=reason.name,
            rules=reason.rules,
            either=len(reason.sets) > 1,
            units=counts["units"],
            only_there=counts["only_there"],
            only_here=counts["only_here"],
            sentence=words.reason_words(comparison, reason.sets),
        )
        for reason, counts in sorted(
            by_reason.items(), key=lambda item: (-item[1]["units"], item[0].name)
        )
    ]
    shown = None
    if query.shown is not None:
        shown = ShownRecord(
            shown=query.shown,
            by_rules=figures["completed"],
            unexplained=query.shown - figures["completed"],
        )
    return CountLikeRecord(
        tool=comparison.tool,
        mode=",".join(comparison.modes),
        rules=RULES_OF,
        definition=words.definition_record(comparison),
        **figures,
        assumed=words.assumed(comparison, context),
        settings=words.settings(comparison, context),
        reasons=reasons,
        shown=shown,
        sentences=words.sentences(comparison, figures, reasons, shown),
    )


def _explained(
    runner: FunnelQueryRunner, context: QueryContext, comparison: Comparison
) -> Iterable[tuple[dict[str, Any], Reason | None]]:
    """Yield rows of `compared`, each with the reason why its units differ; None if they do not."""
    here, there = comparison.rules_here(), comparison.rules_there()

    def fetch(
        sets: Sequence[tuple[Switches, Rules]], units: Sequence[int] | None = None
    ) -> Sequence[dict[str, Any]]:
        tried = [rules for _, rules in sets]
        statement = compared(context.profile, here, there, tried, units=units)
        return runner.fetch_events(context, statement).rows

    def reason(sets: Sequence[tuple[Switches, Rules]], mask: int) -> Reason:
        return Reason(tuple(each for at, (each, _) in enumerate(sets) if mask >> at & 1))

    singles, pairs = _sets(comparison, 1), _sets(comparison, 2)
    rows = fetch(singles)
    left = [row for row in rows if row["differs"] and not row["explained"]]
    for row in rows:
        if not row["differs"]:
            yield row, None
        elif row["explained"]:
            yield row, reason(singles, row["explained"])
        elif not pairs:  # All rules together are at most two.
            whole = tuple(comparison.switches)
            yield row, Reason((whole,) if len(whole) in (1, 2) else ())
    if not pairs or not left:
        return
    if all(row["units"] <= MAX_NAMED_UNITS for row in left):
        named = [unit for row in left for unit in row["named"]]
        for row in fetch(pairs, named):
            yield row, reason(pairs, row["explained"])
        return
    ones = (1 << len(singles)) - 1
    for row in fetch([*singles, *pairs]):
        if row["differs"] and not row["explained"] & ones:
            yield row, reason([*singles, *pairs], row["explained"])


def _sets(comparison: Comparison, size: int) -> list[tuple[Switches, Rules]]:
    """Return the sets of `size` switches with their rules, without the set of all switches."""
    switches = comparison.switches
    if size >= len(switches):
        return []
    sets = ((each, rules_of(comparison, each)) for each in combinations(switches, size))
    return [(each, rules) for each, rules in sets if rules is not None]
