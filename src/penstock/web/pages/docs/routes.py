"""Public pages with the API documentation."""

from litestar import Response, get

from penstock.http.openapi import openapi_document_of
from penstock.http.requests import AnyRequest
from penstock.web.codes import FAULTS, PROBLEMS, WARNINGS
from penstock.web.reference import reference
from penstock.web.rendering import html


@get("/api/docs", sync_to_thread=True)
def docs(request: AnyRequest) -> Response[bytes]:
    return html(
        request, "docs/reference.html", {"reference": reference(openapi_document_of(request.app))}
    )


@get("/api/docs/errors", sync_to_thread=True)
def errors(request: AnyRequest) -> Response[bytes]:
    return html(
        request, "docs/errors.html", {"problems": PROBLEMS, "faults": FAULTS, "warnings": WARNINGS}
    )


ROUTES = (docs, errors)
