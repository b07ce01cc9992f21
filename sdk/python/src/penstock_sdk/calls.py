"""Requests that wait for a response, and their responses. Both clients share this module."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

import httpx

Json = dict[str, Any]


class PenstockError(Exception):
    """The server returned an error. problem: the problem document, with `code` and `errors`."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"status {status}")
        self.status, self.problem, self.code = status, problem, problem.get("code")


class ResultsQuery(TypedDict, total=False):
    """Query parameters. `start_at` is inclusive, `end_at` exclusive; `page_size` is at most 100."""

    start_at: datetime
    end_at: datetime
    website_id: str
    page: int
    page_size: int


def read_answer(response: httpx.Response) -> Json:
    """Return a response's JSON object. Raises `PenstockError` for any other response."""
    answer = json_object(response)
    if not response.is_success or answer is None:
        raise PenstockError(response.status_code, answer or {"detail": response.text})
    return answer


def json_object(response: httpx.Response) -> Json | None:
    try:
        answer = response.json()
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
