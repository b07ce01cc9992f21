"""The pages of the API's documentation. Open to all."""

from typing import Any

from litestar import Request, Response, get

from penstock.http.openapi import openapi_document_of
from penstock.web.codes import FAULTS, PROBLEMS, WARNINGS
from penstock.web.reference import reference
from penstock.web.rendering import html

AnyRequest = Request[Any, Any, Any]


@get("/api/docs", sync_to_thread=True)
def docs(request: AnyRequest) -> Response[bytes]:
    return html(request, "docs/reference.html", {"reference": reference(openapi_document_of(request.app))})


@get("/api/docs/errors", sync_to_thread=True)
def errors(request: AnyRequest) -> Response[bytes]:
    return html(request, "docs/errors.html", {"problems": PROBLEMS, "faults": FAULTS, "warnings": WARNINGS})


ROUTES = (docs, errors)
