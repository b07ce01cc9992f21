"""Counts a funnel by the rules of another tool, and explains the difference unit by unit."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
Tried = list[tuple[Switches, Rules]]
"""Sets of rules that are tried, and how to count by each."""
_MAX_RULES = 2
"""Maximum number of rules that explain a difference. More are `several`."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why results of units differ: sets of rules, each of which explains them.

    sets: empty if more than two rules are needed.
    """

    sets: tuple[Switches, ...]

    @classmethod
    def of(cls, tried: Tried, mask: int) -> "Reason":
        """Return the reason by the mask of the sets that explain a unit."""
        return cls(tuple(each for at, (each, _) in enumerate(tried) if mask >> at & 1))

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
    totals: Counter[str] = Counter()
    by_reason: dict[Reason, Counter[str]] = {}
    for row, reason in _explained(runner, context, comparison):
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
) -> Iterator[tuple[Mapping[str, Any], Reason | None]]:
    """Yield rows of `compared`, each with the reason why its units differ; None if they do not.

    Other rules are tried only with units that differ, and pairs of them only with those that no
    single rule explains: named ones, or else all units again.
    """
    here, there = comparison.rules_here(), comparison.rules_there()

    def fetch(tried: Tried, units: Sequence[int] | None) -> Sequence[Mapping[str, Any]]:
        rules = [rules for _, rules in tried]
        statement = compared(context.profile, here, there, rules, units=units)
        return runner.fetch_events(context, statement).rows

    rows = fetch([], None)
    yield from ((row, None) for row in rows if not row["differs"])
    left = [row for row in rows if row["differs"]]
    earlier: Tried = []
    for group in _tried(comparison):
        count = sum(row["units"] for row in left)
        if not count:
            return
        tried, units, known = [*earlier, *group], None, (1 << len(earlier)) - 1
        if count <= MAX_NAMED_UNITS and not comparison.definition.repeat:
            tried, units, known = group, [unit for row in left for unit in row["named"]], 0
        rows = [row for row in fetch(tried, units) if row["differs"]]
        left = [row for row in rows if not row["explained"]]
        for row in rows:
            if row["explained"] and not row["explained"] & known:
                yield row, Reason.of(tried, row["explained"])
        earlier = [*earlier, *group]
    everything = tuple(comparison.switches)
    for row in left:
        yield row, Reason((everything,) if len(everything) in (1, _MAX_RULES) else ())


def _tried(comparison: Comparison) -> list[Tried]:
    """Return the sets of one switch and those of two with their rules, without the set of all."""
    switches = comparison.switches
    groups = []
    for size in range(1, min(_MAX_RULES + 1, len(switches))):
        sets = ((each, rules_of(comparison, each)) for each in combinations(switches, size))
        groups.append([(each, rules) for each, rules in sets if rules is not None])
    return [group for group in groups if group]
