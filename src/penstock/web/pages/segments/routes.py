"""The list of segments, and the form for a segment."""

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.funnels.definitions.operators import operators_by_group
from penstock.funnels.definitions.revisions import filter_in_words
from penstock.funnels.segments.service import SavedSegmentService
from penstock.http.schema import SearchQuery
from penstock.web.view import View


@get("/segments", sync_to_thread=True)
def list_page(
    view: NamedDependency[View], segments: NamedDependency[SavedSegmentService]
) -> Response[bytes]:
    query = view.query(SearchQuery)
    listing = segments.page(view.workspace_id, query.pagination, query.search)
    return view.render(
        "segments/list.html",
        parts=("list",),
        segments=listing,
        words={segment.id: [*map(filter_in_words, segment.filters)] for segment in listing.data},
        search=query.search,
    )


@get("/segments/new", sync_to_thread=True)
def new_page(view: NamedDependency[View]) -> Response[bytes]:
    groups = operators_by_group()
    return view.render("segments/form.html", segment=None, filters=[{}], operator_groups=groups)


@get("/segments/{segment_id:str}/edit", sync_to_thread=True)
def edit_page(
    view: NamedDependency[View],
    segment_id: FromPath[str],
    segments: NamedDependency[SavedSegmentService],
) -> Response[bytes]:
    segment = segments.get(view.workspace_id, segment_id)
    return view.render(
        "segments/form.html",
        segment=segment,
        filters=[item.model_dump() for item in segment.filters],
        operator_groups=operators_by_group(),
    )


ROUTES = (list_page, new_page, edit_page)
