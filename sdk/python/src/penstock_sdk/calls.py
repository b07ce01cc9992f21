"""Requests that wait for a response, and their responses. Both clients share this module."""

from collections.abc import Mapping
from typing import Any

import httpx

Json = dict[str, Any]


class PenstockError(Exception):
    """The server returned an error. problem: the problem document, with `code` and `errors`."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"status {status}")
        self.status, self.problem, self.code = status, problem, problem.get("code")


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
