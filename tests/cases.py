"""Runs many cases of one rule on one application, workspace and set of stores.

Starting an application and signing up takes longer than checking most rules.
"""

from collections.abc import Callable, Collection, Iterable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.tiers import TIER, Tier, is_for_full_tier

Test = Callable[..., None]


def full_except(sample: Collection[Any], values: Iterable[Any], reason: str) -> list[ParameterSet]:
    """Return the values as cases of which `make test` runs only those in `sample`.

    values: a value, or a tuple of the values of several parameters, for each case. reason: why the
    others belong to `make test-full`.
    """
    mark = pytest.mark.full(reason)
    cases = [(value, value if isinstance(value, tuple) else (value,)) for value in values]
    return [pytest.param(*case, marks=() if value in sample else mark) for value, case in cases]


def every_database_in_full_tier(test: Test) -> Test:
    """Like the mark `every_database`, but `make test` runs the test on SQLite alone."""
    repetition = pytest.param("postgresql", marks=pytest.mark.full("repeated on PostgreSQL"))
    parametrize = pytest.mark.parametrize("database_url", ["sqlite", repetition], indirect=True)
    return pytest.mark.every_database(parametrize(test))


def cases(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but all cases run in one test, each as a subtest.

    A case sees the data that earlier cases have stored. Use `parametrize` where that matters.

    names: the names of the test's parameters. values: a value, a tuple or a `pytest.param` for each
    case. A case with the mark `full` is left out of `make test`.
    """
    is_single = isinstance(names, str)
    parameters = (names,) if isinstance(names, str) else names
    sets = [ParameterSet.extract_from(value, force_tuple=is_single) for value in values]
    if TIER is not Tier.FULL:
        sets = [case for case in sets if not is_for_full_tier(case.marks)]

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run(subtests: pytest.Subtests, **fixtures: Any) -> None:
            for case in sets:
                values_of_case = dict(zip(parameters, case.values, strict=True))
                with subtests.test(str(case.id) if case.id else None, **values_of_case):
                    test(**fixtures, **values_of_case)

        complete = signature(test)
        own = [value for name, value in complete.parameters.items() if name not in parameters]
        subtests = Parameter("subtests", Parameter.KEYWORD_ONLY)
        run.__signature__ = complete.replace(parameters=[*own, subtests])  # type: ignore[attr-defined]
        return run

    return decorate


def questions_about_one_scene(*questions: Test) -> Test:
    """Return a test that asks several questions of the same fixtures, each as a subtest.

    questions: functions that are named after the rule that they check. Their parameters are
    fixtures. They only read, because each sees what earlier ones have stored.
    """
    fixtures_of = {question: tuple(signature(question).parameters) for question in questions}

    def run(*, subtests: Any, **fixtures: Any) -> None:
        for question, names in fixtures_of.items():
            with subtests.test(question.__name__):
                question(**{name: fixtures[name] for name in names})

    all_names = sorted({name for names in fixtures_of.values() for name in names})
    parameters = [Parameter(name, Parameter.KEYWORD_ONLY) for name in (*all_names, "subtests")]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run
