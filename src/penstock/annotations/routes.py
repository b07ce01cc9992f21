"""HTTP routes for annotations."""

from penstock.accounts.callers import CHECKS_WEBSITE
from penstock.accounts.model import Caller
from penstock.annotations.schema import AnnotationChange, AnnotationRecord, NewAnnotation
from penstock.annotations.service import AnnotationService
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields
from penstock.http.schema import RecordsQuery

_ALL = "/api/annotations"
_ONE = "/api/annotations/{annotation_id:str}"
_CHECKED = {CHECKS_WEBSITE: True}


@route("POST", _ALL, "Create an annotation", tag="annotations", opt=_CHECKED)
def create_annotation(
    caller: Caller, annotations: AnnotationService, body: NewAnnotation
) -> AnnotationRecord:
    """An annotation is a note on the time axes of reports, such as a release.

    Requests with an `id` of your choice are safe to repeat: a repeat returns the stored annotation.
    A workspace has at most 5,000 annotations.
    """
    return AnnotationRecord.of(annotations.create(caller, body))


@route("GET", _ALL, "Annotations", tag="annotations")
def list_annotations(
    caller: Caller, annotations: AnnotationService, query: RecordsQuery
) -> Listing[AnnotationRecord]:
    """Lists annotations, the latest first."""
    return annotations.page(caller.workspace_id, query).map(AnnotationRecord.of)


@route("PATCH", _ONE, "Change an annotation", tag="annotations", opt=_CHECKED)
def change_annotation(
    caller: Caller,
    annotations: AnnotationService,
    annotation_id: str,
    body: AnnotationChange,
    read_only: ReadOnlyFields,
) -> AnnotationRecord:
    """Fields that you leave out keep their values. `at` replaces a day, and `day` a time.

    You can send read-only fields (`id`, `createdAt`, `updatedAt`) back with their stored values.
    """
    return AnnotationRecord.of(annotations.change(caller, annotation_id, body, read_only))


@route("DELETE", _ONE, "Delete an annotation", tag="annotations", opt=_CHECKED)
def delete_annotation(caller: Caller, annotations: AnnotationService, annotation_id: str) -> None:
    annotations.delete(caller, annotation_id)


ROUTES = (create_annotation, list_annotations, change_annotation, delete_annotation)
