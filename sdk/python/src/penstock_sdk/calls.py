"""Requests that are answered at once, and their answers: the same for both clients."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

import httpx

from penstock_sdk.events import camel

Http = httpx.Client | httpx.AsyncClient


class PenstockError(Exception):
    """The server's answer was an error. problem: its problem document, with `code` and `errors`."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"status {status}")
        self.status, self.problem, self.code = status, problem, problem.get("code")


class ResultsQuery(TypedDict, total=False):
    """`start_at` is inclusive, `end_at` exclusive; a page has up to 100 cohorts."""

    start_at: datetime
    end_at: datetime
    website_id: str
    page: int
    page_size: int


def results(http: Http, funnel_id: str, query: ResultsQuery) -> httpx.Request:
    return http.build_request("GET", f"/api/funnels/{funnel_id}/results", params=_params(query))


def import_file(http: Http, website_id: str, content: bytes, name: str | None) -> httpx.Request:
    params = _params({"website_id": website_id, "file_name": name})
    url, headers = "/api/imports", {"Content-Type": "application/x-ndjson"}
    return http.build_request("POST", url, params=params, content=content, headers=headers)


def _params(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        camel(name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None
    }


def read_answer(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of a response; `PenstockError` if it is an error, or no Penstock's."""
    answer = json_object(response)
    if not response.is_success or answer is None:
        raise PenstockError(response.status_code, answer or {"detail": response.text})
    return answer


def json_object(response: httpx.Response) -> dict[str, Any] | None:
    try:
        answer = response.json()
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
