"""The report's events counted by the rules of another tool."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from penstock.base.errors import Invalid
from penstock.funnels.other_tools.rules import TOOLS, Tool
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.schema import PeriodQuery
from penstock.funnels.questions import RESULTS, FunnelQuestion
from penstock.web.pages.report.panels.context import Parameters, ReportContext

Q = TypeVar("Q", bound=PeriodQuery)
R = TypeVar("R", bound=BaseModel)

_NAMES = {
    **{
        tool: TOOLS[tool].name
        for tool in (Tool.POSTHOG, Tool.MIXPANEL, Tool.AMPLITUDE, Tool.WINDOWFUNNEL)
    },
    Tool.GA4: "Google Analytics 4",
}
"""Names of the tools in the order of the menu."""


def other_tools(context: ReportContext) -> dict[str, Any]:
    """Return the numbers by the rules of the tool that the reader chose, or why there are none.

    more: parameters of the question. like: None if a rule of the tool is not counted, for the
    reasons in `refused`, or if the tool is never counted.
    """
    tool = context.query.count_like or Tool.POSTHOG
    more = {**_parameters(context, tool), "shown": context.query.shown}
    panel = {
        "tool": tool,
        "tools": _NAMES,
        "modes": list(TOOLS[tool].modes) if tool in TOOLS else [],
        "mode": (more["mode"] or "").partition(",")[0],
        "more": more,
        "like": None,
        "refused": [],
    }
    if tool is Tool.GA4:
        return panel
    try:
        return {**panel, "like": context.ask(RESULTS, more).count_like}
    except Invalid as error:
        return {**panel, "refused": _messages(error)}


@dataclass
class Beside:
    """The other tool that a tab counts like, beside Penstock.

    more: parameters of the question. refused: why the tab has no numbers by its rules.
    """

    name: str
    more: Parameters = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    @property
    def is_counted(self) -> bool:
        return bool(self.more)


def beside(context: ReportContext) -> Beside | None:
    """Return the tool that the reader chose on the tab Other tools, not counted yet."""
    tool = context.query.count_like
    return None if tool is None else Beside(_NAMES[tool])


def ask_like(
    context: ReportContext,
    question: FunnelQuestion[Q, R],
    more: Parameters,
    prepared: QueryContext | None = None,
) -> tuple[R, Beside | None]:
    """Answer a question also by the rules of the tool that the reader chose, if these are known."""
    tool, other = context.query.count_like, beside(context)
    if tool is None or other is None or tool is Tool.GA4:
        return context.ask(question, more, prepared), other
    parameters = {key: value for key, value in _parameters(context, tool).items() if value}
    try:
        answer = context.ask(question, {**more, **parameters}, prepared)
    except Invalid as error:
        return context.ask(question, more, prepared), Beside(other.name, refused=_messages(error))
    return answer, Beside(other.name, parameters)


def _messages(error: Invalid) -> list[str]:
    return [fault.message.partition(": ")[2] for fault in error.faults]


def _parameters(context: ReportContext, tool: Tool) -> dict[str, Any]:
    return {"countLike": tool.value, "mode": ",".join(_modes(context, tool)) or None}


def _modes(context: ReportContext, tool: Tool) -> list[str]:
    """Return the modes that the reader chose, if the tool has them."""
    if tool is Tool.MIXPANEL and context.page.definition.repeat:
        return ["totals"]
    return [mode for mode in context.query.mode if tool in TOOLS and mode in TOOLS[tool].modes]
