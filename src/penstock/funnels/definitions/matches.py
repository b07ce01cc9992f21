"""Resolves the stored matches of goals and steps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from penstock.base.errors import Fault
from penstock.base.paths import page_path
from penstock.base.unicode_text import composed
from penstock.funnels.definitions.builtins import COHORT, COHORT_PREFIX, IN_COHORT, PATH
from penstock.funnels.definitions.filters import check_request_field, parse_filter
from penstock.funnels.definitions.model import Filter, Match, MatchType
from penstock.funnels.definitions.operators import OPERATORS, Comparison
from penstock.funnels.definitions.schema import GOAL, SavedFilter, SavedMatch
from penstock.http.schema import (
    RuleBroken,
    RulesBroken,
    join_path,
)


def resolve_match(
    match: SavedMatch, goals: Mapping[str, SavedMatch], check_regex: Callable[[str], None]
) -> Match:
    """Parse a match. A goal is replaced by its own match, and the filters of both must hold.

    Raises RulesBroken with all faults of the match and of its goal.
    """
    faults: list[Fault] = []
    filters = tuple(load_filters(match.filters, check_regex, faults))
    loaded = None
    if match.type == GOAL:
        try:
            loaded = resolve_match(goals[match.value], {}, check_regex)
        except RulesBroken as error:
            faults += _goal_faults(match.value, error.faults)
    elif match.type in set(MatchType):
        match_type = MatchType(match.type)
        is_page = match_type is MatchType.PAGEVIEW
        loaded = Match(match_type, page_path(match.value) if is_page else composed(match.value))
    else:
        faults.append(Fault("type", "not_one_of", f"Must be {', '.join(MatchType)} or {GOAL}."))
    if faults or loaded is None:
        raise RulesBroken(faults)
    return Match(loaded.type, loaded.value, loaded.filters + filters)


def load_filters(
    filters: Sequence[SavedFilter], check_regex: Callable[[str], None], faults: list[Fault]
) -> Iterator[Filter]:
    """Read stored filters, or those of a query, by the same rules as new filters.

    faults: list to which the faults of invalid filters are added.
    """
    for index, item in enumerate(filters):
        at, faults_before = f"filters[{index}]", len(faults)
        with _collect_fault(faults, f"{at}.property"):
            check_request_field(item.property)
        if (operator := OPERATORS.get(item.operator)) is None:
            known = ", ".join(OPERATORS)
            faults.append(Fault(f"{at}.operator", "not_one_of", f"Must be one of {known}."))
            continue
        with _collect_fault(faults, f"{at}.value"):
            comparison = parse_filter(item.property, operator, item.value, check_regex)
        if len(faults) == faults_before:
            yield _loaded_filter(item.property, comparison)


def _loaded_filter(key: str, comparison: Comparison) -> Filter:
    if key == COHORT:
        return Filter(COHORT_PREFIX + comparison.operand, replace(comparison, operand=IN_COHORT))
    return Filter(key, _normalise_path(comparison) if key == PATH else comparison)


def _normalise_path(comparison: Comparison) -> Comparison:
    """Rewrite the operand in the same way as stored page paths, unless it is a regex."""
    normalise = comparison.operator.traits.operand.normalise_path
    return Comparison(comparison.operator, normalise(comparison.operand))


@contextmanager
def _collect_fault(faults: list[Fault], field: str) -> Iterator[None]:
    """Turn a broken rule into a fault of the field."""
    try:
        yield
    except RuleBroken as error:
        faults.append(Fault(field, error.code, error.message))


def _goal_faults(name: str, faults: Sequence[Fault]) -> Iterator[Fault]:
    """Turn the faults of a goal into faults of the match that uses it."""
    for fault in faults:
        at = join_path("match", fault.field)
        yield Fault("value", fault.code, f"The goal {name} is invalid at {at}: {fault.message}")
