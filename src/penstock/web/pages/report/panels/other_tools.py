"""The report's events counted by the rules of another tool."""

from typing import Any

from penstock.base.errors import Invalid
from penstock.funnels.other_tools.rules import TOOLS, Tool
from penstock.funnels.questions import RESULTS
from penstock.web.pages.report.panels.context import ReportContext

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
    modes = _modes(context, tool)
    more = {"countLike": tool.value, "mode": ",".join(modes) or None, "shown": context.query.shown}
    panel = {
        "tool": tool,
        "tools": _NAMES,
        "modes": list(TOOLS[tool].modes) if tool in TOOLS else [],
        "mode": modes[0] if modes else "",
        "more": more,
        "like": None,
        "refused": [],
    }
    if tool is Tool.GA4:
        return panel
    try:
        return {**panel, "like": context.ask(RESULTS, more).count_like}
    except Invalid as error:
        messages = [fault.message.partition(": ")[2] for fault in error.faults]
        return {**panel, "refused": messages}


def _modes(context: ReportContext, tool: Tool) -> list[str]:
    """Return the modes that the reader chose, if the tool has them."""
    if tool is Tool.MIXPANEL and context.page.definition.repeat:
        return ["totals"]
    return [mode for mode in context.query.mode if tool in TOOLS and mode in TOOLS[tool].modes]
