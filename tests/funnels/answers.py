"""Reads problem documents: what a response says is wrong."""

import httpx

from tests.answers import body_of


def code(answer: httpx.Response, status: int) -> str:
    """Return the code of the problem. status: the expected status of the response."""
    problem_code: str = body_of(answer, status)["code"]
    return problem_code


def faults(answer: httpx.Response, status: int = 422) -> list[str]:
    """Return the field and the code of each fault, such as `steps[0].value too_long`."""
    errors = body_of(answer, status)["errors"]
    return [f"{fault['field']} {fault['code']}" for fault in errors]


def fields(answer: httpx.Response, status: int = 400) -> list[str]:
    """Return the field or the parameter of each fault."""
    return [fault.split()[0] for fault in faults(answer, status)]
