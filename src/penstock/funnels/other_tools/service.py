"""Counts a funnel by the rules of another tool, and explains the difference unit by unit."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from penstock.base.wording import listed
from penstock.funnels.other_tools import words
from penstock.funnels.other_tools.rules import (
    NO_PARTS,
    RULES_OF,
    Comparison,
    Parts,
    Switch,
    compare,
    rules_of,
)
from penstock.funnels.other_tools.schema import (
    CountLikeRecord,
    DifferenceRecord,
    DiffersQuery,
    LikeFiguresRecord,
    LikeQuery,
    LikeRulesRecord,
    ShownQuery,
    ShownRecord,
    UnitThereRecord,
)
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import unfit_parameters
from penstock.funnels.statements.other_tools import EXCLUDED, MAX_NAMED_UNITS, Rules, compared

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


@dataclass(frozen=True, slots=True)
class Group:
    """Units with the same results here and there, and the reason; None if the results are equal.

    here, there, part: see `compared`. units: their number. named: keys of units that differ, the
    first `MAX_NAMED_UNITS`.
    """

    here: int
    there: int
    part: int
    units: int
    named: Sequence[int]
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class CountedLike:
    """Numbers by the rules of a tool, for each part of a question that divides units.

    by_part: figures by the start of a span, or by the index of a value. A part without units has
    none.
    """

    rules: LikeRulesRecord
    by_part: Mapping[int, LikeFiguresRecord]
    none: LikeFiguresRecord

    def figures(self, part: int) -> LikeFiguresRecord:
        return self.by_part.get(part, self.none)


def count_like(
    runner: FunnelQueryRunner, context: QueryContext, query: LikeQuery
) -> CountLikeRecord | None:
    """Return the numbers by the rules of the tool that the query names; None if it names none.

    Raises Invalid if a rule of the tool is unknown or not counted.
    """
    counted = count_parts_like(runner, context, query, NO_PARTS)
    if counted is None:
        return None
    figures, shown = counted.figures(0), None
    more = list(figures.sentences)
    if isinstance(query, ShownQuery) and query.shown is not None:
        shown = ShownRecord(
            shown=query.shown,
            by_rules=figures.completed,
            unexplained=query.shown - figures.completed,
        )
        more.append(words.shown_words(shown))
    parts = {**dict(counted.rules), **dict(figures), "sentences": more}
    return CountLikeRecord(**parts, shown=shown)


def count_parts_like(
    runner: FunnelQueryRunner, context: QueryContext, query: LikeQuery, parts: Parts
) -> CountedLike | None:
    """Like `count_like`, but for each part of the units."""
    comparison = comparison_of(context, query, parts)
    if comparison is None:
        return None
    by_part: dict[int, list[Group]] = {}
    for group in compare_units(runner, context, comparison):
        by_part.setdefault(group.part, []).append(group)
    return CountedLike(
        LikeRulesRecord(
            tool=comparison.tool,
            mode=",".join(comparison.modes),
            rules=RULES_OF,
            definition=words.definition_record(comparison),
            assumed=words.assumed(comparison, context),
            settings=words.settings(comparison, context),
        ),
        {part: _figures(comparison, groups) for part, groups in by_part.items()},
        _figures(comparison, []),
    )


def _figures(comparison: Comparison, groups: Iterable[Group]) -> LikeFiguresRecord:
    last = len(comparison.definition.steps)
    totals: Counter[str] = Counter()
    by_reason: dict[Reason, Counter[str]] = {}
    for group in groups:
        here, there = group.here == last, group.there == last
        counts = Counter(
            units=group.units,
            only_there=group.units * (there and not here),
            only_here=group.units * (here and not there),
        )
        totals += counts + Counter(
            entered=group.units * (group.there > 0),
            completed=group.units * there,
            entered_here=group.units * (group.here > 0),
            completed_here=group.units * here,
            same_units=group.units * (group.reason is None),
        )
        if group.reason is not None:
            by_reason.setdefault(group.reason, Counter()).update(counts)
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
            sentence=words.reason_words(
                comparison,
                reason.sets,
                counts["only_here"] if counts["only_here"] == counts["units"] else 0,
            ),
        )
        for reason, counts in sorted(
            by_reason.items(), key=lambda item: (-item[1]["units"], item[0].name)
        )
    ]
    sentences = words.sentences(comparison, figures, reasons)
    return LikeFiguresRecord(**figures, reasons=reasons, sentences=sentences)


def comparison_of(
    context: QueryContext, query: LikeQuery, parts: Parts = NO_PARTS
) -> Comparison | None:
    """Return the rules to compare; None if the query names no tool. Raises like `count_like`."""
    if query.count_like is None:
        return None
    return compare(
        query.count_like,
        query.mode,
        context.definition,
        context.params,
        parts,
        has_whole_seconds=context.profile.has_provider_events,
    )


def compare_units(
    runner: FunnelQueryRunner,
    context: QueryContext,
    comparison: Comparison,
    units: Sequence[int] | None = None,
) -> Iterator[Group]:
    """Yield all units in groups.

    Other rules are tried only with units that differ, and pairs of them only with those that no
    single rule explains: named ones, or else all units again. All of this has the time of one
    statement. units: keys of the units to compare; None for all.
    """
    here, there = comparison.rules_here(), comparison.rules_there()
    check = runner.deadline()

    def fetch(
        tried: Tried,
        units: Sequence[int] | None,
        known: Mapping[int, tuple[int, int]] | None = None,
    ) -> list[Mapping[str, Any]]:
        check()
        statement = compared(
            context.profile,
            here,
            there,
            [rules for _, rules in tried],
            units=units,
            known=known,
            values=comparison.parts.values,
        )
        return list(runner.fetch_events(context, statement).rows)

    def group(row: Mapping[str, Any], reason: Reason | None) -> Group:
        return Group(row["here"], row["there"], row["part"], row["units"], row["named"], reason)

    rows = fetch([], units)
    yield from (group(row, None) for row in rows if row["here"] == row["there"])
    left = [row for row in rows if row["here"] != row["there"]]
    earlier: Tried = []
    for sets in _tried(comparison):
        count = sum(row["units"] for row in left)
        if not count:
            return
        tried, explained_earlier, known = [*earlier, *sets], (1 << len(earlier)) - 1, None
        if count <= MAX_NAMED_UNITS and not comparison.definition.repeat:
            results = {unit: (row["here"], row["there"]) for row in left for unit in row["named"]}
            units = sorted(results)
            if comparison.parts == NO_PARTS:  # Other parts of these units may be explained.
                tried, explained_earlier, known = sets, 0, results
        rows = [row for row in fetch(tried, units, known) if row["here"] != row["there"]]
        left = [row for row in rows if not row["explained"]]
        for row in rows:
            if row["explained"] and not row["explained"] & explained_earlier:
                yield group(row, Reason.of(tried, row["explained"]))
        earlier += sets
    everything = tuple(comparison.switches)
    reason = Reason((everything,) if len(everything) in (1, _MAX_RULES) else ())
    yield from (group(row, reason) for row in left)


def differing_units(
    runner: FunnelQueryRunner, context: QueryContext, query: DiffersQuery
) -> dict[int, Group] | None:
    """Return the units that differ by their keys, only those of the reason that the query names.

    None if the query asks for no such units. Raises Malformed for an unknown reason, and otherwise
    like `count_like`.
    """
    comparison = comparison_of(context, query)
    if comparison is None or not query.differs:
        return None
    groups = [group for group in compare_units(runner, context, comparison) if group.reason]
    names = {group.reason.name for group in groups if group.reason}
    if query.reason is not None and query.reason not in names:
        known = listed(sorted(names), "or") if names else "left out: no unit differs"
        raise unfit_parameters({"reason": f"Must be {known}."})
    return {
        unit: group
        for group in groups
        if query.reason is None or (group.reason and group.reason.name == query.reason)
        for unit in group.named
    }


def unit_there(comparison: Comparison, group: Group) -> UnitThereRecord:
    """Return the record of a unit in the group."""
    reason = group.reason
    return UnitThereRecord(
        tool=comparison.tool,
        mode=",".join(comparison.modes),
        reached=group.there % EXCLUDED,
        completed=group.there == len(comparison.definition.steps),
        reason=None if reason is None else reason.name,
        sentence=words.unit_words(
            comparison, group.here, group.there, None if reason is None else reason.sets
        ),
    )


def _tried(comparison: Comparison) -> list[Tried]:
    """Return the sets of one switch and those of two with their rules, without the set of all."""
    switches = comparison.switches
    groups = []
    for size in range(1, min(_MAX_RULES + 1, len(switches))):
        sets = ((each, rules_of(comparison, each)) for each in combinations(switches, size))
        groups.append([(each, rules) for each, rules in sets if rules is not None])
    return [group for group in groups if group]
