"""The list of segments, and the form for a segment."""

from litestar import Response

from penstock.funnels.definitions.revisions import filter_in_words
from penstock.funnels.segments.service import SavedSegmentService
from penstock.http.schema import SearchQuery
from penstock.web.page_routes import page
from penstock.web.view import View


@page("/segments")
def list_page(view: View, segments: SavedSegmentService) -> Response[bytes]:
    query = view.query(SearchQuery)
    listing = segments.page(view.workspace_id, query.pagination, query.search)
    return view.render(
        "segments/list.html",
        parts=("list",),
        segments=listing,
        words={segment.id: [*map(filter_in_words, segment.filters)] for segment in listing.data},
        search=query.search,
    )


@page("/segments/new")
def new_page(view: View) -> Response[bytes]:
    return view.render("segments/form.html", segment=None, filters=[{}])


@page("/segments/{segment_id:str}/edit")
def edit_page(view: View, segment_id: str, segments: SavedSegmentService) -> Response[bytes]:
    segment = segments.get(view.workspace_id, segment_id)
    filters = [item.model_dump() for item in segment.filters]
    return view.render("segments/form.html", segment=segment, filters=filters)


ROUTES = (list_page, new_page, edit_page)
