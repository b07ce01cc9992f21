"""Hooks for schemathesis: NDJSON bodies, IDs of real records, and two checks.

Schemathesis invents IDs, but a request for an unknown record tests little. So most valid requests
refer to existing records, listed in the environment variable `KNOWN`: a JSON object from field to
ID.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx
import schemathesis

from penstock.web.codes import PROBLEMS
from tests.waiting import eventually

SERVICE = "PENSTOCK_FUZZ_SERVICE"
"""URL of the service and a key that may read its imports, separated by a space."""
KNOWN = "PENSTOCK_FUZZ_KNOWN"
ANSWERS = "PENSTOCK_FUZZ_ANSWERS"
"""File that receives the number of responses by operation and status."""

_MAX_IMPORTS = 10
"""Maximum number of unfinished imports. As documented, a workspace that already has 20 of them gets
a 503.
"""
_known: dict[str, str] = json.loads(os.environ.get(KNOWN, "{}"))
_codes = frozenset(entry.name for entry in PROBLEMS)


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: Any, value: Any) -> bytes:
    """Return bytes unchanged, and any other value as one or more lines of JSON."""
    if isinstance(value, bytes):
        return value
    lines = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@schemathesis.hook
def before_call(_: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Put real records into valid requests. Never delete a website, because other requests need it.

    Imports wait until earlier ones have ended, and each query gets at least a minute. Otherwise,
    both would return 503, as documented.
    """
    if case.meta is None or not case.meta.generation.mode.is_negative:
        for values in (case.path_parameters, case.query, case.body):
            if isinstance(values, dict):
                _name_records(values)
        if isinstance(case.body, dict):
            _lengthen_queries(case.body)
    if case.method.upper() == "DELETE" and case.path.endswith("/websites/{website_id}"):
        case.path_parameters["website_id"] = "web_of_nobody"
    if case.method.upper() == "POST" and case.path == "/api/imports":
        eventually(lambda: _unfinished_imports() < _MAX_IMPORTS)


def _unfinished_imports() -> int:
    url, key = os.environ[SERVICE].split()
    headers = {"Authorization": f"Bearer {key}"}
    imports = httpx.get(f"{url}/api/imports", params={"pageSize": 50}, headers=headers)
    return sum(job["state"] in ("queued", "running") for job in imports.json()["data"])


def _lengthen_queries(body: dict[str, Any]) -> None:
    seconds = body.get("queryTimeoutSeconds")
    if isinstance(seconds, int | float):
        body["queryTimeoutSeconds"] = max(seconds, 60)


def _name_records(values: dict[str, Any]) -> None:
    for name in _known.keys() & values.keys():
        if isinstance(values[name], str) and crc32(values[name].encode("utf-8", "replace")) % 5:
            values[name] = _known[name]


@schemathesis.check
def errors_are_problem_documents(_: Any, response: Any, case: Any) -> None:
    """Check that every error is a problem document with a documented code."""
    if response.status_code < 400 or response.request.method == "HEAD":
        return
    assert response.headers["content-type"] == ["application/problem+json"], "not a problem"
    problem = response.json()
    assert problem["status"] == response.status_code, "the status is another"
    assert problem["code"] in _codes, f"the code {problem['code']} is not documented"


@schemathesis.check
class counts_answers:  # noqa: N801 - the name of a check
    """Counts responses by operation and status, for the numbers in the docs."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()

    def after_response(self, _: Any, response: Any, case: Any) -> None:
        self.answers[f"{case.operation.label} {response.status_code}"] += 1

    def after_run(self, _: Any) -> None:
        if path := os.environ.get(ANSWERS):
            Path(path).write_text(json.dumps(self.answers))
