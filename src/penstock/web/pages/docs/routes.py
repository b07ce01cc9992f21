"""Public pages with the API documentation."""

from litestar import Response

from penstock.http.handlers import route
from penstock.http.openapi import openapi_document_of
from penstock.http.requests import AnyRequest
from penstock.web.codes import FAULTS, PROBLEMS, WARNINGS
from penstock.web.reference import reference
from penstock.web.rendering import html


@route("GET", "/api/docs")
def docs(request: AnyRequest) -> Response[bytes]:
    return html(
        request, "docs/reference.html", {"reference": reference(openapi_document_of(request.app))}
    )


@route("GET", "/api/docs/errors")
def errors(request: AnyRequest) -> Response[bytes]:
    return html(
        request, "docs/errors.html", {"problems": PROBLEMS, "faults": FAULTS, "warnings": WARNINGS}
    )


ROUTES = (docs, errors)
