"""Receipts: the form that keeps the number of a report, the list, and the page of each."""

from collections.abc import Iterator, Sequence
from functools import partial
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from litestar import Response
from pydantic import MISSING

from penstock.base.clock import iso, parse_time
from penstock.base.errors import NotFound
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing
from penstock.funnels.comparisons.words import value_words
from penstock.funnels.results.schema import ReportQuery
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.shown_rates import ShownRate
from penstock.http.schema import PageQuery
from penstock.receipts.schema import (
    ReceiptFiguresRecord,
    ReceiptRateRecord,
    ReceiptRecord,
    ReceiptsQuery,
)
from penstock.receipts.service import ReceiptService
from penstock.shares.bars import days_in_words
from penstock.web.page_routes import page, slow_page
from penstock.web.pages.funnel_page import FunnelPages
from penstock.web.pages.parts import load_part
from penstock.web.view import View

_RELATIVE = ("period", "start", "end")
_OF_COMPARISONS = ("compare", "compareStart")


@page("/settings/receipts")
def list_of_receipts(view: View, receipts: ReceiptService) -> Response[bytes]:
    query = view.query(ReceiptsQuery)
    listing = receipts.page(view.workspace_id, query.pagination, query.funnel_id)
    return view.render(
        "receipts/list.html", parts=("receipts",), receipts=listing, periods=_periods(listing)
    )


@page("/funnels/{funnel_id:str}/receipt")
def keep_number(
    view: View, funnel_id: str, funnel_pages: FunnelPages, receipts: ReceiptService
) -> Response[bytes]:
    """Keeps the number of a report as it is selected, and lists the receipts on its funnel."""
    query = view.query(ReportQuery, view.websites)
    report = funnel_pages.load(funnel_id, query)
    span = query.span(view.now_ms, report.definition.window_s or 0)
    left_out = (*_OF_COMPARISONS, *(_RELATIVE if span else ()))
    selection = {name: value for name, value in report.selection.items() if name not in left_out}
    if span is not None:
        selection |= {"startAt": iso(span[0]), "endAt": iso(span[1])}
    listing = receipts.page(view.workspace_id, view.query(PageQuery).pagination, funnel_id)
    return view.render(
        "receipts/new.html",
        parts=("receipts",),
        report=report,
        selection=selection,
        days=span and days_in_words(*span, query.zone),
        receipts=listing,
        periods=_periods(listing),
    )


@slow_page("/receipts/{receipt_id:str}")
def receipt_page(
    view: View, receipt_id: str, receipts: ReceiptService, funnels: FunnelService
) -> Response[bytes]:
    receipt = receipts.get(view.workspace_id, receipt_id)
    question = {**receipt.question, "timezone": receipt.timezone}
    if receipt.period.start_at is None:
        question["period"] = "all"
    return view.render(
        "receipts/receipt.html",
        parts=("opened",),
        receipt=receipt,
        shown=_shown(receipt.figures),
        shown_rate=_shown,
        period=_period(receipt),
        report_address=f"/funnels/{receipt.funnel_id}?{urlencode(question)}"
        if _exists(funnels, view.workspace_id, receipt.funnel_id)
        else None,
        cohort_rows=_cohort_rows,
        opened=load_part(view, "opened", partial(receipts.open, view.workspace_id, receipt_id)),
    )


def _exists(funnels: FunnelService, workspace_id: WorkspaceId, funnel_id: str) -> bool:
    try:
        funnels.get(workspace_id, funnel_id)
    except NotFound:
        return False
    return True


def _shown(figures: ReceiptRateRecord) -> ShownRate:
    return ShownRate(figures.part, figures.whole, figures.of, is_so_far=figures.is_so_far)


def _cohort_rows(
    columns: Sequence[ReceiptFiguresRecord],
) -> Iterator[tuple[str | None, list[ShownRate | None]]]:
    """Yield the values of each kept cohort in words with its rate in each column.

    columns: the kept figures, then later counts of them. The values are those that are stored now:
    None if no event has them any more.
    """
    original = columns[0].cohorts
    if original is MISSING:
        return
    by_value = [
        {} if each.cohorts is MISSING else {cohort.value: cohort for cohort in each.cohorts}
        for each in columns
    ]
    for cohort in original:
        cohorts = [each.get(cohort.value) for each in by_value]
        values = next((each.values for each in cohorts[1:] if each is not None), MISSING)
        yield (
            None if values is MISSING else ", ".join(map(value_words, values.values())),
            [None if each is None else _shown(each) for each in cohorts],
        )


def _periods(listing: Listing[ReceiptRecord]) -> dict[str, str]:
    """Return the period of each receipt in words, by its ID."""
    return {receipt.id: _period(receipt) for receipt in listing.data}


def _period(receipt: ReceiptRecord) -> str:
    start, end = receipt.period.start_at, receipt.period.end_at
    if start is None or end is None:
        return "All time"
    return days_in_words(parse_time(start), parse_time(end), ZoneInfo(receipt.timezone))


ROUTES = (list_of_receipts, keep_number, receipt_page)
