"""Reads responses of the API. A response that a test does not expect fails it with its text."""

from collections.abc import Iterable, Mapping
from typing import Any

import httpx


def body_of(answer: httpx.Response, status: int = 200) -> Any:
    """Return the JSON body of a response that must have this status."""
    assert answer.status_code == status, f"{answer.status_code}, not {status}: {answer.text}"
    return answer.json()


class Problem(tuple[int, str | None]):
    """The status and code of a response. text: the whole response, which a failed comparison shows
    (`pytest_assertrepr_compare` in `tests/conftest.py`).
    """

    text: str


def problem(answer: httpx.Response) -> Problem:
    """Return the status and the code of a problem document. The code of a success is None."""
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    result = Problem((answer.status_code, answer.json()["code"] if is_problem else None))
    result.text = answer.text
    return result


def faults(answer: httpx.Response, status: int = 422) -> dict[str, str]:
    """Return the error code of each faulty field. The response must have this status."""
    document = body_of(answer, status)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return faults_in(document)


def faults_in(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the error code of each faulty field of a problem document or a rejected item."""
    codes = {error["field"]: error["code"] for error in document["errors"]}
    assert len(codes) == len(document["errors"]), f"two errors of one field: {document['errors']}"
    return codes


def values_of(record: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    """Return the values of these fields of a record."""
    return tuple(record[name] for name in names)


def columns_of(records: Iterable[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Return the values of these fields of each record."""
    return [values_of(record, *names) for record in records]
