"""HTTP client for commands that talk to a running service."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import httpx
import typer

from penstock.base.service_urls import is_http_url
from penstock.cli.options import API_KEY_VARIABLE, URL_VARIABLE, WRONG_USE, fail

Record = dict[str, Any]

Url = Annotated[str, typer.Option(envvar=URL_VARIABLE, help="URL of the service.")]
ApiKey = Annotated[
    str,
    typer.Option(
        envvar=API_KEY_VARIABLE,
        help="API key; prefer the environment variable.",
        show_default=False,
    ),
]

LOCAL = "http://127.0.0.1:8000"
_TIMEOUT_S = 60
_PAGE_SIZE = 100


@contextmanager
def service_client(
    url: str, api_key: str, *, owns: str, advice: str = ""
) -> Iterator[httpx.Client]:
    """Yield a client that sends the API key. A failed connection ends the command.

    owns: the kind of record that the key's workspace must own, such as a website. advice: what to
    do after a failed connection.
    """
    if not api_key:
        fail(f"set PENSTOCK_API_KEY to an API key of the workspace that owns the {owns}", WRONG_USE)
    if not is_http_url(url):
        fail(
            f"{url} is not a valid service URL; PENSTOCK_URL must start with http:// or https://",
            WRONG_USE,
        )
    try:
        with httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {api_key}"}, timeout=_TIMEOUT_S
        ) as client:
            yield client
    except httpx.ConnectError:
        fail(f"no Penstock answers at {url}; start it, or set PENSTOCK_URL")
    except httpx.HTTPError as error:
        fail(
            f"the connection to {url} failed ({error or type(error).__name__})"
            + (f"; {advice}" if advice else "")
        )


def record_of(response: httpx.Response) -> Record:
    """Return the record in a response. An error ends the command with the service's message.

    So does an answer that is not JSON, such as a page of a proxy.
    """
    if not response.is_success:
        default = f"the service answered {response.status_code} to {_request_of(response)}"
        fail(str(problem_of(response).get("detail") or default))
    try:
        record: Record = response.json()
    except ValueError:
        fail_unexpected(response)
    return record


def problem_of(response: httpx.Response) -> Record:
    """Return the problem document in an error response; empty if it has none."""
    try:
        problem = response.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def fail_unexpected(response: httpx.Response) -> NoReturn:
    """End the command because a response cannot come from Penstock."""
    kind = response.headers.get("Content-Type") or "no content type"
    fail(
        f"{response.request.url.host} answered {_request_of(response)} with {kind[:100]}. This is "
        "not a response from Penstock; check PENSTOCK_URL, and any proxy in between"
    )


def _request_of(response: httpx.Response) -> str:
    return f"{response.request.method} {response.request.url.path}"


def listed_records(client: httpx.Client, path: str) -> Iterator[Record]:
    """Yield every record of a list, page by page. path: may have query parameters."""
    page, total = 1, 1
    while (page - 1) * _PAGE_SIZE < total:
        url = httpx.URL(path).copy_merge_params({"page": page, "pageSize": _PAGE_SIZE})
        response = client.get(url)
        answer = record_of(response)
        if not (isinstance(answer, dict) and {"data", "total"} <= answer.keys()):
            fail_unexpected(response)
        yield from answer["data"]
        page, total = page + 1, answer["total"]
