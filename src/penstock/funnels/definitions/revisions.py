"""Revisions of a funnel, and descriptions of the changes between two revisions. No I/O."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeVar

from penstock.base.clock import iso
from penstock.funnels.definitions.filters import parse_comparison
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.definitions.operators import OPERATORS
from penstock.funnels.definitions.schema import (
    RevisionRecord,
    SavedDefinition,
    SavedFilter,
    SavedMatch,
    SavedStep,
)
from penstock.funnels.definitions.windows import UNIT_S, WindowUnit, window_in_words
from penstock.http.schema import RuleBroken

T = TypeVar("T", str, SavedFilter, SavedMatch)

MAX_TEXT_CHARS = 100
"""Maximum length of a value in characters; longer values are truncated. The definition in the same
response contains the full text.
"""


@dataclass(frozen=True, slots=True)
class Revision:
    """A current or past definition of a funnel.

    number: counts from 1.
    name: the funnel's name when the revision was saved.
    """

    number: int
    name: str
    definition: SavedDefinition
    created_at_ms: int

    def record(self, before: "Revision | None") -> RevisionRecord:
        return RevisionRecord(
            revision=self.number,
            name=self.name,
            definition=self.definition,
            created_at=iso(self.created_at_ms),
            changes=[] if before is None else list(changes_between(before, self)),
        )


def changes_between(before: Revision, after: Revision) -> Iterator[str]:
    """Yield a phrase for each change: first the name, then rows, then settings.

    Two different definitions yield at least one phrase.
    """
    if before.name != after.name:
        yield f"Name {_cut(before.name)} -> {_cut(after.name)}"
    yield from _row_changes(before.definition.steps, after.definition.steps)
    yield from _setting_changes(before.definition, after.definition)


@dataclass(frozen=True, slots=True)
class _NumberedRow:
    """A row and its position.

    at: index in `steps`.
    step: number of the step; for any other row, number of the step before it.
    """

    at: int
    step: int
    row: SavedStep

    def __str__(self) -> str:
        if self.row.required:
            return f"step {self.step}"
        where = f"after step {self.step}" if self.step else "before step 1"
        return f"{'exclusion' if self.row.exclude else 'diagnostic'} row {where}"

    @property
    def description(self) -> str:
        return f"{_capital(str(self))} ({_match(self.row)})"


def _number_rows(rows: Sequence[SavedStep]) -> list[_NumberedRow]:
    numbered, step = [], 0
    for at, row in enumerate(rows):
        step += row.required
        numbered.append(_NumberedRow(at, step, row))
    return numbered


def _row_changes(before: Sequence[SavedStep], after: Sequence[SavedStep]) -> Iterator[str]:
    pairs, removed, added = _align(_number_rows(before), _number_rows(after))
    changes: list[tuple[int, str]] = []
    for old in removed:
        if new := next((other for other in added if other.row == old.row), None):
            added.remove(new)
            changes.append((new.at, f"{old.description} moved: now {new}"))
        else:
            changes.append((old.at, f"{old.description} removed"))
    changes += [(new.at, _describe_addition(new)) for new in added]
    changes += [(new.at, text) for old, new in pairs for text in _changes_of_row(old, new)]
    yield from (text for _, text in sorted(changes, key=lambda change: change[0]))


def _align(
    old: list[_NumberedRow], new: list[_NumberedRow]
) -> tuple[list[tuple[_NumberedRow, _NumberedRow]], list[_NumberedRow], list[_NumberedRow]]:
    """Return pairs of corresponding rows, removed rows and added rows.

    Rows correspond if their types and values are equal. Rows between such pairs correspond in
    order.
    """
    pairs: list[tuple[_NumberedRow, _NumberedRow]] = []
    removed, added = [], []
    before, after = ([(each.row.type, each.row.value) for each in rows] for rows in (old, new))
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        common = min(b - a, d - c) if kind in ("equal", "replace") else 0
        pairs += zip(old[a : a + common], new[c : c + common], strict=True)
        removed += old[a + common : b]
        added += new[c + common : d]
    return pairs, removed, added


def _describe_addition(added: _NumberedRow) -> str:
    if not added.row.required:
        return f"{_capital(str(added))} added: {_row_in_words(added.row)}"
    where = f"after step {added.step - 1}" if added.step > 1 else "at the beginning"
    return f"Step {added.step} added {where}: {_row_in_words(added.row)}"


def _changes_of_row(before: _NumberedRow, after: _NumberedRow) -> Iterator[str]:
    old, new, label = before.row, after.row, _capital(str(after))
    if old == new:
        return
    if (old.diagnostic, old.exclude) != (new.diagnostic, new.exclude):
        article = "" if new.required else "an " if new.exclude else "a "
        yield f"{before.description} is now {article}{after}"
    if (old.type, old.value) != (new.type, new.value):
        yield f"{label} now matches {_match(new)} instead of {_match(old)}"
    if old.mode != new.mode:
        needs = "all of its parts, in any order" if new.mode else "any one of its options"
        yield f"{label} now needs {needs}"
    if old.strict != new.strict:
        allows_nothing = ": nothing else may lie before it" if new.strict == "all" else ""
        yield f"{label} is {'now' if new.strict else 'no longer'} strict{allows_nothing}"
    if old.name != new.name:
        yield f"{label}: name {_key(old.name)} -> {_key(new.name)}"
    yield from _list_changes(f"{label}: filter", old.filters, new.filters, filter_in_words)
    yield from _list_changes(
        f"{label}: {'part' if new.mode else 'option'}", old.or_, new.or_, _row_in_words
    )


def _setting_changes(old: SavedDefinition, new: SavedDefinition) -> Iterator[str]:
    if old.counting_unit != new.counting_unit:
        yield f"Counts {_units(new.counting_unit)} instead of {_units(old.counting_unit)}"
    if old.attempt_keys != new.attempt_keys:
        yield f"Attempt property {_keys(old.attempt_keys)} -> {_keys(new.attempt_keys)}"
    if old.sequence_property != new.sequence_property:
        yield f"Sequence property {_key(old.sequence_property)} -> {_key(new.sequence_property)}"
    yield from _list_changes(
        "Breakdown property", old.breakdown_properties, new.breakdown_properties, _cut
    )
    if old.breakdown_at != new.breakdown_at:
        yield f"Breakdown by the values of {_values_at(old)} -> {_values_at(new)}"
    if old.equal_times != new.equal_times:
        rule = "count in step order" if new.equal_times else "prove no order"
        yield f"Events with equal times now {rule}"
    if old.repeat != new.repeat:
        yield "Counts every run of a visitor" if new.repeat else "Counts each visitor once"
    if old.order != new.order:
        yield f"Steps count in {'any' if new.order else 'the given'} order"
    before, after = window_of(old), window_of(new)
    if before != after:
        yield f"Conversion window {before} -> {after}"
    elif old.conversion_window != new.conversion_window:
        yield f"Conversion window is written differently: {after}"


def _values_at(definition: SavedDefinition) -> str:
    at = definition.breakdown_at
    return f"step {at}" if isinstance(at, int) else f"the {at or 'entry'} event"


def _list_changes(
    label: str, old: Sequence[T], new: Sequence[T], describe: Callable[[T], str]
) -> Iterator[str]:
    """Describe removed and added items or, if only the order has changed, the new order.

    describe: puts an item in words. Items with the same words may still be stored differently,
    which is a change.
    """
    before, after = (Counter(_comparable(item) for item in items) for items in (old, new))
    removed = Counter(map(describe, _surplus(old, before - after)))
    added = Counter(map(describe, _surplus(new, after - before)))
    for text in (removed - added).elements():
        yield f"{label} removed: {text}"
    for text in (added - removed).elements():
        yield f"{label} added: {text}"
    for text in (removed & added).elements():
        yield f"{label} is written differently: {text}"
    if before == after and list(old) != list(new):
        yield f"{label}: order is now {', '.join(map(describe, new))}"


def _surplus(items: Sequence[T], surplus: Counter[str]) -> Iterator[T]:
    left = Counter(surplus)
    for item in items:
        key = _comparable(item)
        if left[key]:
            left[key] -= 1
            yield item


def _comparable(item: str | SavedFilter | SavedMatch) -> str:
    return item if isinstance(item, str) else item.model_dump_json()


def _row_in_words(match: SavedMatch) -> str:
    """Describe a match with its filters and, for a row, its options or parts."""
    text = _match(match)
    if match.filters:
        text += " where " + " and ".join(map(filter_in_words, match.filters))
    if isinstance(match, SavedStep) and match.or_:
        joint = " and " if match.mode else " or "
        text = joint.join([text, *map(_row_in_words, match.or_)])
    return text


def _match(match: SavedMatch) -> str:
    return f"{match.type} {_cut(match.value)}"


def filter_in_words(item: SavedFilter) -> str:
    """Describe a filter: its property, operator and operand."""
    try:
        comparison = parse_comparison(OPERATORS[item.operator], item.value, _any_regex)
        operand = comparison.operator.traits.operand.words(comparison.operand)
    except (RuleBroken, KeyError):  # The filter was stored under older rules.
        operand = item.value
    parts = _cut(item.property), item.operator.replace("_", " "), _cut(operand)
    return " ".join(part for part in parts if part)


def _any_regex(pattern: str) -> None:
    """Accept every pattern, because descriptions do not need valid patterns."""


def _units(unit: CountingUnit) -> str:
    return f"{unit.value}s"


def _key(name: str | None) -> str:
    return "none" if name is None else _cut(name)


def _keys(names: Sequence[str]) -> str:
    return ", ".join(map(_cut, names)) or "none"


def window_of(definition: SavedDefinition) -> str:
    """Return the conversion window in words, such as `7 days` or `unlimited`."""
    window, seconds = definition.conversion_window, definition.window_s
    if window is not None:
        return window_in_words(window.value, window.unit)
    if seconds is None:
        return "unlimited"
    unit: WindowUnit = "hour" if seconds % UNIT_S["day"] else "day"
    return window_in_words(seconds // UNIT_S[unit], unit)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "…"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
