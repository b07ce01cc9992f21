"""Matches: what an event must be, as goals and the steps of funnels define it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from penstock.base.errors import Fault
from penstock.base.paths import page_path
from penstock.funnels.definitions.builtins import PATH
from penstock.funnels.definitions.filters import check_event_field, parse_comparison
from penstock.funnels.definitions.model import Filter, Match, MatchType
from penstock.funnels.definitions.operators import OPERATORS, Comparison
from penstock.funnels.definitions.schema import GOAL, SavedFilter, SavedMatch
from penstock.http.schema import (
    RuleBroken,
    RulesBroken,
    join_path,
)


def resolved_match(
    match: SavedMatch, goals: Mapping[str, SavedMatch], check_regex: Callable[[str], None]
) -> Match:
    """The match with a goal replaced by the goal's own match; the filters of both must hold.

    RulesBroken with every fault of the stored match, and of the goal's.
    """
    faults: list[Fault] = []
    filters = tuple(_loaded_filters(match.filters, check_regex, faults))
    loaded = None
    if match.type == GOAL:
        try:
            loaded = resolved_match(goals[match.value], {}, check_regex)
        except RulesBroken as error:
            faults += _of_goal(match.value, error.faults)
    elif match.type in set(MatchType):
        match_type = MatchType(match.type)
        is_page = match_type is MatchType.PAGEVIEW
        loaded = Match(match_type, page_path(match.value) if is_page else match.value)
    else:
        faults.append(Fault("type", "not_one_of", f"Must be {', '.join(MatchType)} or {GOAL}."))
    if faults or loaded is None:
        raise RulesBroken(faults)
    return Match(loaded.type, loaded.value, loaded.filters + filters)


def _loaded_filters(
    filters: Sequence[SavedFilter], check_regex: Callable[[str], None], faults: list[Fault]
) -> Iterator[Filter]:
    """Stored filters, read by the rules for new ones. faults: gets those of the unreadable ones."""
    for place, item in enumerate(filters):
        at, faults_before = f"filters[{place}]", len(faults)
        with _collecting(faults, f"{at}.property"):
            check_event_field(item.property)
        if (operator := OPERATORS.get(item.operator)) is None:
            known = ", ".join(OPERATORS)
            faults.append(Fault(f"{at}.operator", "not_one_of", f"Must be one of {known}."))
            continue
        with _collecting(faults, f"{at}.value"):
            comparison = parse_comparison(operator, item.value, check_regex)
        if len(faults) == faults_before:
            is_path = item.property == PATH
            yield Filter(item.property, _with_path(comparison) if is_path else comparison)


def _with_path(comparison: Comparison) -> Comparison:
    """The comparison of a page path, with its operand as paths are stored.

    An expression stays as it is.
    """
    of_path = comparison.operator.traits.operand.of_path
    return Comparison(comparison.operator, of_path(comparison.operand))


@contextmanager
def _collecting(faults: list[Fault], field: str) -> Iterator[None]:
    """Turns a broken rule into a fault of the field."""
    try:
        yield
    except RuleBroken as error:
        faults.append(Fault(field, error.code, error.message))


def _of_goal(name: str, faults: Sequence[Fault]) -> Iterator[Fault]:
    """Faults of a goal as those of the match that refers to it."""
    for fault in faults:
        at = join_path("match", fault.field)
        yield Fault("value", fault.code, f"The goal {name} is invalid at {at}: {fault.message}")
