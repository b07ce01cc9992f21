"""Asking a running service, as commands that are its clients do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import httpx
import typer

from penstock.cli.options import WRONG_USE, fail

Record = dict[str, Any]

Url = Annotated[str, typer.Option(envvar="PENSTOCK_URL", help="Address of the service.")]
ApiKey = Annotated[str, typer.Option(envvar="PENSTOCK_API_KEY", help="API key; better given in the environment.", show_default=False)]

LOCAL = "http://127.0.0.1:8000"
_TIMEOUT_S = 60


@contextmanager
def asking(url: str, api_key: str, *, owns: str, way_on: str = "") -> Iterator[httpx.Client]:
    """A client with the key; within the context a connection that cannot be had or breaks ends the command.

    owns: what the workspace of the key must own, for who gave none. way_on: what to do after a connection broke.
    """
    if not api_key:
        fail(f"set PENSTOCK_API_KEY to an API key of the workspace that owns the {owns}", WRONG_USE)
    try:
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {api_key}"}, timeout=_TIMEOUT_S) as client:
            yield client
    except httpx.UnsupportedProtocol:
        fail(f"{url} is no address of a service; PENSTOCK_URL must begin with http:// or https://", WRONG_USE)
    except httpx.ConnectError:
        fail(f"no Penstock answers at {url}; start one, or set PENSTOCK_URL")
    except httpx.HTTPError as error:
        fail(f"the connection to {url} broke ({error or type(error).__name__})" + (f"; {way_on}" if way_on else ""))


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
