"""The operators of filters, and a filter's comparison: an operator with an operand of its type."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple


class Operator(StrEnum):
    """How a filter compares. `is_not_set` and the negative ones hold for missing properties."""

    EQUALS = "equals"
    NOT_EQUALS = "not_equals"
    IN = "in"
    NOT_IN = "not_in"
    CONTAINS = "contains"
    NOT_CONTAINS = "not_contains"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    MATCHES_REGEX = "matches_regex"
    NOT_MATCHES_REGEX = "not_matches_regex"
    IS_SET = "is_set"
    IS_NOT_SET = "is_not_set"
    GREATER_THAN = "greater_than"
    GREATER_THAN_OR_EQUAL = "greater_than_or_equal"
    LESS_THAN = "less_than"
    LESS_THAN_OR_EQUAL = "less_than_or_equal"
    BETWEEN = "between"
    NOT_BETWEEN = "not_between"
    IS_TRUE = "is_true"
    IS_FALSE = "is_false"
    BEFORE = "before"
    AFTER = "after"


TextOperator = Literal[
    Operator.EQUALS,
    Operator.NOT_EQUALS,
    Operator.CONTAINS,
    Operator.NOT_CONTAINS,
    Operator.STARTS_WITH,
    Operator.ENDS_WITH,
]
RegexOperator = Literal[Operator.MATCHES_REGEX, Operator.NOT_MATCHES_REGEX]
ListOperator = Literal[Operator.IN, Operator.NOT_IN]
NumberOperator = Literal[
    Operator.GREATER_THAN,
    Operator.GREATER_THAN_OR_EQUAL,
    Operator.LESS_THAN,
    Operator.LESS_THAN_OR_EQUAL,
]
RangeOperator = Literal[Operator.BETWEEN, Operator.NOT_BETWEEN]
TimeOperator = Literal[Operator.BEFORE, Operator.AFTER]
StateOperator = Literal[Operator.IS_SET, Operator.IS_NOT_SET, Operator.IS_TRUE, Operator.IS_FALSE]


class NumberRange(NamedTuple):
    """Both ends are included; low is at most high."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TextComparison:
    operator: TextOperator
    operand: str


@dataclass(frozen=True, slots=True)
class RegexComparison:
    """operand: a regular expression in RE2's syntax."""

    operator: RegexOperator
    operand: str


@dataclass(frozen=True, slots=True)
class ListComparison:
    """operand: the texts that the property's text is looked up in."""

    operator: ListOperator
    operand: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NumberComparison:
    operator: NumberOperator
    operand: float


@dataclass(frozen=True, slots=True)
class RangeComparison:
    operator: RangeOperator
    operand: NumberRange


@dataclass(frozen=True, slots=True)
class TimeComparison:
    """operand: milliseconds since 1970."""

    operator: TimeOperator
    operand: int


@dataclass(frozen=True, slots=True)
class StateComparison:
    """Takes no operand."""

    operator: StateOperator


Comparison = (
    TextComparison
    | RegexComparison
    | ListComparison
    | NumberComparison
    | RangeComparison
    | TimeComparison
    | StateComparison
)
