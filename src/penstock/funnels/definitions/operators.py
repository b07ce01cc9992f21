"""The table of filter operators.

The API, the builder, costs, statements and the table in docs/funnels.md are generated from it.
Tests compare each operator with its meaning in plain Python (tests/funnels/reference/matching.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, Self, TypeVar

from penstock.funnels.definitions.operands import (
    LIST,
    NONE,
    NUMBER,
    PART,
    RANGE,
    REGEX,
    TEXT,
    TIME,
    NumberRange,
    Operand,
)

T = TypeVar("T")


class PropertySql(Protocol):
    """A property of an event, as SQL expressions.

    present: whether the property is a scalar.
    plain: its text; empty if it is missing.
    number, time_ms: its value as a float; NULL if the text is not a number or not a time.
    """

    @property
    def present(self) -> str: ...
    @property
    def plain(self) -> str: ...
    @property
    def number(self) -> str: ...
    @property
    def time_ms(self) -> str: ...

    def is_one_of(self, texts: Sequence[str]) -> str:
        """Return SQL that is true if the property is present and its text is one of these."""

    def bind(self, value: str | float) -> str:
        """Bind a value as a parameter of the statement, and return its placeholder."""


Condition = Callable[[PropertySql, T], str]
"""Renders SQL that is 1 if the comparison of a property with an operand holds, else 0."""


@dataclass(frozen=True, slots=True)
class Traits(Generic[T]):
    """The meaning of an operator.

    words: its name in the builder and the documentation.
    cost: cost in the units of `definitions.cost`.
    negative: the operator holds where `condition` does not.
    """

    operand: Operand[T]
    words: str
    condition: Condition[T]
    cost: int = 1
    negative: bool = False


def _is(value: PropertySql, text: str) -> str:
    return value.is_one_of((text,))


def _is_one_of(value: PropertySql, texts: tuple[str, ...]) -> str:
    return value.is_one_of(texts)


def _is_boolean(text: str) -> Condition[None]:
    return lambda value, _: value.is_one_of((text,))


def _is_present(value: PropertySql, _: None) -> str:
    return value.present


def _text(sql: str) -> Condition[str]:
    """Return a condition on the property's text.

    sql: has one `{}` for the property, then one for the operand.
    """
    return lambda value, text: f"{value.present} AND {sql.format(value.plain, value.bind(text))}"


def _number(sign: str) -> Condition[float]:
    return lambda value, limit: _known(value, f"{value.number} {sign} {value.bind(limit)}")


def _is_between(value: PropertySql, ends: NumberRange) -> str:
    low, high = map(value.bind, ends)
    return _known(value, f"{value.number} BETWEEN {low} AND {high}")


def _time(sign: str) -> Condition[int]:
    return lambda value, at_ms: _known(value, f"{value.time_ms} {sign} {value.bind(at_ms)}")


def _known(value: PropertySql, nullable_condition: str) -> str:
    """Make a condition false where it is NULL because the property is not a number or time."""
    return f"{value.present} AND ifNull({nullable_condition}, 0)"


EMPTY_TEXT = "empty_text"
"""Column that a text must be joined with before the engine matches it with a pattern. The column is
the empty text, and exists only after the events are split into small blocks (`statements.sources`).
"""

_FOLDED = "normalizeUTF8NFC(caseFoldUTF8({}))"
"""Full case folding can take a character apart, such as `ΐ`."""
_CONTAINS = _text("position({}, {}) > 0")
_MATCHES = _text(f"match(concat({{}}, {EMPTY_TEXT}), {{}})")


class Operator(StrEnum):
    """The comparison that a filter makes. Negative operators also hold for missing properties."""

    traits: Traits[Any]

    def __new__(cls, name: str, traits: Traits[Any]) -> Self:
        operator = str.__new__(cls, name)
        operator._value_, operator.traits = name, traits
        return operator

    EQUALS = "equals", Traits(TEXT, "is", _is)
    NOT_EQUALS = "not_equals", Traits(TEXT, "is not", _is, negative=True)
    IN = "in", Traits(LIST, "is one of", _is_one_of)
    NOT_IN = "not_in", Traits(LIST, "is none of", _is_one_of, negative=True)
    CONTAINS = "contains", Traits(PART, "contains", _CONTAINS, 2)
    NOT_CONTAINS = "not_contains", Traits(PART, "does not contain", _CONTAINS, 2, negative=True)
    STARTS_WITH = "starts_with", Traits(PART, "starts with", _text("startsWith({}, {})"), 2)
    ENDS_WITH = "ends_with", Traits(PART, "ends with", _text("endsWith({}, {})"), 2)
    EQUALS_IGNORE_CASE = (
        "equals_ignore_case",
        Traits(TEXT, "is (any case)", _text(f"{_FOLDED} = {_FOLDED}"), 2),
    )
    CONTAINS_IGNORE_CASE = (
        "contains_ignore_case",
        Traits(
            PART,
            "contains (any case)",
            _text(f"position({_FOLDED}, {_FOLDED}) > 0"),
            2,
        ),
    )
    MATCHES_REGEX = "matches_regex", Traits(REGEX, "matches regex", _MATCHES, 2)
    NOT_MATCHES_REGEX = (
        "not_matches_regex",
        Traits(REGEX, "does not match regex", _MATCHES, 2, negative=True),
    )
    IS_SET = "is_set", Traits(NONE, "is set", _is_present)
    IS_NOT_SET = "is_not_set", Traits(NONE, "is not set", _is_present, negative=True)
    GREATER_THAN = "greater_than", Traits(NUMBER, "is more than", _number(">"), 4)
    GREATER_THAN_OR_EQUAL = "greater_than_or_equal", Traits(NUMBER, "is at least", _number(">="), 4)
    LESS_THAN = "less_than", Traits(NUMBER, "is less than", _number("<"), 4)
    LESS_THAN_OR_EQUAL = "less_than_or_equal", Traits(NUMBER, "is at most", _number("<="), 4)
    BETWEEN = "between", Traits(RANGE, "is between", _is_between, 4)
    NOT_BETWEEN = "not_between", Traits(RANGE, "is not between", _is_between, 4, negative=True)
    IS_TRUE = "is_true", Traits(NONE, "is true", _is_boolean("true"))
    IS_FALSE = "is_false", Traits(NONE, "is false", _is_boolean("false"))
    BEFORE = "before", Traits(TIME, "is before", _time("<"), 6)
    AFTER = "after", Traits(TIME, "is after", _time(">"), 6)


OPERATORS: Mapping[str, Operator] = {operator.value: operator for operator in Operator}
"""Operators by name."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """An operator with its operand. operand: None if the operator takes none."""

    operator: Operator
    operand: Any


def operators_with(*operands: Operand[Any]) -> list[Operator]:
    """Return the operators that take one of these kinds of operand."""
    return [operator for operator in Operator if operator.traits.operand in operands]


def operators_by_group() -> dict[str, list[Operator]]:
    """Return the operators under each heading of the builder."""
    groups: dict[str, list[Operator]] = {}
    for operator in Operator:
        groups.setdefault(operator.traits.operand.group, []).append(operator)
    return groups
