"""Validates filters that clients send."""

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

from penstock.funnels.definitions.builtins import (
    ATTEMPT_BUILTINS,
    BUILTIN_FIELDS,
    COHORT,
    COHORT_PREFIX,
    FIRST_TIME,
    TRAIT_PREFIX,
    cohort_of,
    is_of_visitor,
    trait_of,
)
from penstock.funnels.definitions.operands import NONE, REGEX, check_storable
from penstock.funnels.definitions.operators import Comparison, Operator
from penstock.http.schema import RuleBroken

MAX_KEY_BYTES = 200
MAX_VALUE_BYTES = 16 * 1024


def parse_comparison(
    operator: Operator, value: str | None, check_regex: Callable[[str], None]
) -> Comparison:
    """Parse the value of a filter, whether a client sent it or it was stored.

    value: text; None if absent.
    check_regex: raises RuleBroken for a pattern that the engine cannot compile.

    Raises RuleBroken if the operator does not accept the value.
    """
    operand = operator.traits.operand
    if operand is NONE:
        if value:
            raise RuleBroken("value_not_allowed", f"{operator} takes no value; leave it out.")
        return Comparison(operator, None)
    if value is None:
        raise RuleBroken("required", f"{operator} needs a value.")
    if len(value.encode("utf-8", "surrogatepass")) > MAX_VALUE_BYTES:
        raise RuleBroken("too_long", f"Must be at most {MAX_VALUE_BYTES:,} bytes.")
    parsed = operand.parse(check_storable(value))
    if operand is REGEX:
        check_regex(parsed)
    return Comparison(operator, parsed)


FIRST_TIME_OPERATORS = (Operator.IS_TRUE, Operator.IS_FALSE, Operator.EQUALS)
"""The operators of `$first_time`. The value of `equals` is `true` or `false`."""


COHORT_OPERATORS = (Operator.EQUALS, Operator.NOT_EQUALS)
"""The operators of `$cohort`. The value is the ID of a saved cohort."""


def parse_filter(
    key: str, operator: Operator, value: str | None, check_regex: Callable[[str], None]
) -> Comparison:
    """Like `parse_comparison`, with the additional rules of `$first_time` and `$cohort`."""
    comparison = parse_comparison(operator, value, check_regex)
    if key == FIRST_TIME and not (
        operator in FIRST_TIME_OPERATORS and comparison.operand in (None, "true", "false")
    ):
        raise RuleBroken(
            "operator_not_allowed",
            f"{FIRST_TIME} has only the operators {', '.join(FIRST_TIME_OPERATORS)}; equals takes "
            "true or false.",
        )
    if key == COHORT and operator not in COHORT_OPERATORS:
        raise RuleBroken(
            "operator_not_allowed",
            f"{COHORT} has only the operators {', '.join(COHORT_OPERATORS)}; the value is the ID "
            "of a saved cohort.",
        )
    return comparison


def check_event_field(key: str) -> str:
    """Return the key if an event can have such a field, for use as a validator."""
    if key == FIRST_TIME:
        raise RuleBroken(
            "builtin_not_allowed",
            f"{FIRST_TIME} depends on the match of a filter, so only filters can name it.",
        )
    return check_filter_field(key)


def check_breakdown_field(key: str) -> str:
    """Return the key if a breakdown can name it, for use as a validator."""
    if key in (COHORT, COHORT_PREFIX):
        raise RuleBroken("too_short", f"Name a cohort by its ID, such as {COHORT_PREFIX}coh_1.")
    return check_event_field(key) if cohort_of(key) is None else _check_property_key(key)


def check_request_field(key: str) -> str:
    """Return the key if a filter of a step or a request can name it, for use as a validator."""
    return key if key == COHORT else check_filter_field(key)


def check_filter_field(key: str) -> str:
    """Return the key if any filter can name it, for use as a validator."""
    if key == COHORT:
        raise RuleBroken(
            "builtin_not_allowed",
            f"Only the filters of a funnel's steps and of a request can name {COHORT}, not a goal, "
            "a segment or internal traffic. Leave it out here, and send it in the parameter "
            "filters of a report.",
        )
    if cohort_of(key) is not None:
        raise RuleBroken(
            "builtin_not_allowed",
            f"Only a breakdown can name {key}. A filter has the property {COHORT}, and the ID of "
            "the cohort as its value.",
        )
    if trait_of(key) == "":
        raise RuleBroken("too_short", f"Name a trait, such as {TRAIT_PREFIX}plan.")
    if key.startswith("$") and not (
        key in BUILTIN_FIELDS or key == FIRST_TIME or key.startswith(TRAIT_PREFIX)
    ):
        known = ", ".join(BUILTIN_FIELDS)
        raise RuleBroken(
            "unknown_builtin",
            f"There is no such built-in field; the fields are {known}, {FIRST_TIME} in filters, "
            f"and {TRAIT_PREFIX} with the name of a trait.",
        )
    return _check_property_key(key)


def _check_property_key(key: str) -> str:
    if not key:
        raise RuleBroken("too_short", "Choose a property.")
    if len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        raise RuleBroken("too_long", f"A property key has at most {MAX_KEY_BYTES} bytes.")
    return check_storable(key)


def _check_own_property(key: str) -> str:
    if key.startswith("$"):
        raise RuleBroken(
            "builtin_not_allowed", "Must be a property of the event itself, not a built-in field."
        )
    return _check_property_key(key)


def _check_attempt_key(key: str) -> str:
    if key.startswith("$") and not is_of_visitor(key):
        raise RuleBroken(
            "builtin_not_allowed",
            f"Must be {', '.join(ATTEMPT_BUILTINS)}, {TRAIT_PREFIX} with the name of a trait, or a "
            "property of the event itself.",
        )
    return check_event_field(key) if trait_of(key) is not None else _check_property_key(key)


EventField = Annotated[str, AfterValidator(check_event_field)]
"""A property key, the `$` name of a built-in field, or `$trait.` and the name of a trait."""

BreakdownField = Annotated[str, AfterValidator(check_breakdown_field)]
"""An `EventField`, or `$cohort.` and the ID of a saved cohort."""

FilterField = Annotated[str, AfterValidator(check_request_field)]
"""An `EventField`, `$first_time` or `$cohort`."""

OwnProperty = Annotated[str, AfterValidator(_check_own_property)]
"""A property key; the names of built-in fields are rejected."""

AttemptKey = Annotated[str, AfterValidator(_check_attempt_key)]
"""A property key, `$visitor`, `$session`, or `$trait.` and the name of a trait."""
