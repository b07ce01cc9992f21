"""Addresses of the dashboard's pages that show the answers of tools."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

_TABS = {
    "trend": "trend", "timing": "times", "next": "next", "compare": "compare",
    "drivers": "drivers", "flows": "flows",
}  # fmt: skip
"""Tabs of a report that show the answer to a question, by its path."""
_SELECTION = (
    *("websiteId", "startAt", "endAt", "timezone", "revision", "cohort"),
    *("breakdown", "breakdownAt", "filters", "window", "settled", "segment", "internal"),
)
"""Query parameters that pages about a funnel share with the API."""
_OF_REPORT = (
    *("page", "pageSize", "sort", "order", "search", "interval", "step", "outcome", "of", "where"),
    *("property", "baseline"),
)
_OF_UNITS = (
    *("step", "option", "outcome", "diagnostic", "quality", "property", "eventName", "eventType"),
    *("hasEvent", "of", "sort", "order", "cursor"),
)


def report_page(funnel_id: str, question: str, parameters: Mapping[str, str]) -> str:
    """Return the page with the answer to a question about a funnel. parameters: as in the API."""
    path = funnel_page(funnel_id)
    if question == "units":
        return _address(f"{path}/units", _selection(parameters) | _only(parameters, _OF_UNITS))
    query = _selection(parameters) | _only(parameters, _OF_REPORT)
    if question in _TABS:
        query["show"] = _TABS[question]
    if {"fromStep", "toStep"} <= parameters.keys():
        query["pair"] = f"{parameters['fromStep']}-{parameters['toStep']}"
    if "compareStartAt" in parameters:
        query |= {"compare": "custom", "compareStart": parameters["compareStartAt"][:10]}
    return _address(path, query)


def unit_page(funnel_id: str, unit: str, parameters: Mapping[str, str]) -> str:
    path = f"{funnel_page(funnel_id)}/units/{quote(unit, safe='')}"
    return _address(path, _selection(parameters))


def funnel_page(funnel_id: str) -> str:
    return f"/funnels/{quote(funnel_id, safe='')}"


def _selection(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that select units. Pages show 30 days by default, the API all time."""
    period = {} if "startAt" in parameters else {"period": "all"}
    return period | _only(parameters, _SELECTION)


def _only(parameters: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: parameters[name] for name in names if name in parameters}


def _address(path: str, query: Mapping[str, str]) -> str:
    return path + (f"?{urlencode(query)}" if query else "")
