"""Answers of a running service, as commands that are its clients take them."""

from typing import Any

import httpx

from penstock.cli.options import fail

Record = dict[str, Any]


def answered(response: httpx.Response) -> Record:
    """The record in an answer; ends the command with the service's own words when it is none."""
    if response.is_success:
        record: Record = response.json()
        return record
    try:
        problem = response.json()
        fail(problem["detail"])
    except (ValueError, KeyError, TypeError):
        fail(f"the service answered {response.status_code} to {response.request.method} {response.request.url.path}")
