"""Replaces the values of properties that must not leave the dashboard."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from penstock.base.scalar import Scalar, tagged
from penstock.base.wording import ordinal
from penstock.funnels.definitions.builtins import COHORT, cohort_of
from penstock.funnels.definitions.revisions import filter_in_words
from penstock.funnels.definitions.schema import SavedFilter
from penstock.funnels.results.schema import CohortRecord
from penstock.funnels.verdicts import SentenceRecord

Values = Mapping[str, Scalar | None]
"""The values of a cohort by property, or texts instead of them."""


def property_words(key: str) -> str:
    """Return the name of a property, without that of a saved cohort."""
    return key if cohort_of(key) is None else "saved cohort"


def hide_filter(item: SavedFilter, shown: Collection[str]) -> str:
    """Describe a filter, without its value unless its property is one of the shown."""
    if item.property == COHORT:
        return "filtered by a saved cohort"
    if item.property in shown:
        return filter_in_words(item)
    return f"filtered by {property_words(item.property)}"


def hide_values(
    cohorts: Sequence[CohortRecord], shown: Collection[str]
) -> list[dict[str, Scalar | None]]:
    """Return the values of cohorts. `1st value`, `2nd value` and so on stand for the values of
    properties that are not shown, by their entries. Missing values stay None.

    cohorts: ordered by their entries, the most first.
    """
    entered: dict[tuple[str, str], int] = {}
    for cohort in cohorts:
        for key in _hidden(cohort.cohort, shown):
            entered[key] = entered.get(key, 0) + cohort.entered
    names: dict[tuple[str, str], str] = {}
    numbers: dict[str, int] = {}
    for key in sorted(entered, key=lambda key: -entered[key]):
        numbers[key[0]] = numbers.get(key[0], 0) + 1
        names[key] = f"{ordinal(numbers[key[0]])} value"
    return [
        {
            name: names.get((name, tagged(value)), value) if value is not None else None
            for name, value in cohort.cohort.items()
        }
        for cohort in cohorts
    ]


def _hidden(values: Values, shown: Collection[str]) -> Iterable[tuple[str, str]]:
    return (
        (name, tagged(value))
        for name, value in values.items()
        if name not in shown and value is not None
    )


def hide_in_sentences(sentences: Iterable[SentenceRecord], shown: Collection[str]) -> list[str]:
    """Return the sentences of a verdict without values of properties that are not shown.

    A sentence about such a value is left out.
    """
    texts = (_without_values(sentence, shown) for sentence in sentences)
    return [text for text in texts if text]


def _without_values(sentence: SentenceRecord, shown: Collection[str]) -> str:
    """Return the text of a sentence; empty if its first phrase states a value that is hidden."""
    parts: list[str] = []
    for phrase in sentence.phrases:
        hidden = [name for name in phrase.properties if name not in shown]
        if hidden and not parts:
            return ""
        parts.append(f"one value of {property_words(hidden[0])}" if hidden else phrase.text)
    return "".join(parts)
