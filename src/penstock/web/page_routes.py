"""Routes of pages: not in the OpenAPI document, and with errors that are shown as pages."""

from functools import partial

from penstock.http.handlers import route
from penstock.web.error_pages import PAGE_HANDLERS

page = partial(
    route, "GET", opt={"page": True}, handler_options={"exception_handlers": PAGE_HANDLERS}
)
"""Like `route`, for a page. `page("/goals")` makes a handler of a function."""

page_form = partial(
    route,
    "POST",
    status=200,
    opt={"page": True},
    handler_options={"exception_handlers": PAGE_HANDLERS},
)
"""Like `page`, for a form that a page of this site sends without a script. Anybody may send it, so
it must carry its own proof, such as a token.
"""

slow_page = partial(page, runs_in="respond_page")
"""Like `page`, for a function that queries the warehouse. It respects the workspace's limits, and
its query stops when the reader leaves.
"""
