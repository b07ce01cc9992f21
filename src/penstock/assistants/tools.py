"""The tools that assistants may call. Each is one row of `TOOLS`.

Their parameters come from the models of the API's routes that they call.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel
from pydantic_core import to_json

from penstock.assistants.addresses import funnel_page, report_page, unit_page
from penstock.assistants.calls import Api, Json, as_parameters
from penstock.assistants.contents import ContentsFilter
from penstock.assistants.schemas import (
    about_questions,
    parameters_of,
    parameters_of_all,
    schema_of,
    short,
)
from penstock.assistants.tool_results import ToolResult
from penstock.base.errors import Conflict, Fault, Invalid, NotFound
from penstock.catalogue.schema import NamesQuery, PropertiesQuery, ValuesQuery
from penstock.funnels.queries.schema import AdHocQuery
from penstock.funnels.questions import (
    DRIVERS,
    EXPLAIN,
    QUESTIONS,
    RESULTS,
    UNITS,
    VERDICT,
    FunnelQuestion,
)
from penstock.funnels.saved.schema import FunnelIn, FunnelsQuery
from penstock.http.schema import PageQuery

Arguments = Mapping[str, Any]
Run = Callable[[Api, ContentsFilter, Arguments], Awaitable[ToolResult]]

_FUNNEL = {"funnelId": {"type": "string", "description": "ID of a funnel, from list_funnels."}}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. schema: JSON Schema of its arguments. run: raises `ApiProblem` and `PenstockError`.

    changes: whether it changes the workspace.
    """

    name: str
    title: str
    description: str
    schema: Json
    run: Run
    changes: bool = False

    async def call(self, api: Api, contents: ContentsFilter, arguments: Arguments) -> ToolResult:
        """Check the names of the arguments, and run the tool."""
        missing = [name for name in self.schema["required"] if arguments.get(name) is None]
        unknown = [name for name in arguments if name not in self.schema["properties"]]
        known = ", ".join(self.schema["properties"])
        no_such = f"There is no such argument. The tool has {known}."
        faults = [
            *(Fault(name, "required", "This field is required.") for name in missing),
            *(Fault(name, "unknown_field", no_such) for name in unknown),
        ]
        if faults:
            raise Invalid(faults)
        # A slash in the ID would lead to another route, past the checks of its tool.
        funnel_id = str(arguments.get("funnelId", "fun_"))
        if not funnel_id.replace("_", "").isalnum():
            raise NotFound("There is no such funnel. Find its ID with list_funnels.")
        return await self.run(api, contents, arguments)


def _reading(
    name: str,
    title: str,
    description: str,
    path: str,
    query: type[BaseModel] | None,
    page: Callable[[Mapping[str, str], Mapping[str, str]], str],
    *,
    in_path: Json | None = None,
    check: Callable[[ContentsFilter, Arguments], None] = lambda *_: None,
) -> Tool:
    """Make a tool of a route that reads.

    page: returns the page that shows the answer, from the parts of the path and the parameters.
    in_path: schemas of the parts of the path. check: raises `Forbidden` for what is not shared.
    """
    parts = in_path or {}
    parameters, required = parameters_of(query)

    async def run(api: Api, contents: ContentsFilter, arguments: Arguments) -> ToolResult:
        check(contents, arguments)
        ids = {part: str(arguments[part]) for part in parts}
        sent = as_parameters({key: arguments[key] for key in arguments if key not in parts})
        quoted = {part: quote(each, safe="") for part, each in ids.items()}
        return ToolResult(await api.get(path.format(**quoted), sent), page(ids, sent))

    return Tool(name, title, description, schema_of(parts | parameters, [*parts, *required]), run)


# Questions about a funnel


def _question_path(funnel_id: str, row: FunnelQuestion[Any, Any]) -> str:
    return f"/api/funnels/{quote(funnel_id, safe='')}/{row.path}"


def _fields(query: type[BaseModel], arguments: Mapping[str, str]) -> dict[str, str]:
    """Return the arguments that a question has."""
    names = {field.alias or name for name, field in query.model_fields.items()}
    return {name: value for name, value in arguments.items() if name in names}


async def _ask(api: Api, contents: ContentsFilter, arguments: Arguments) -> ToolResult:
    row = next((row for row in QUESTIONS if row.path == arguments["question"]), None)
    if row is None:
        paths = ", ".join(row.path for row in QUESTIONS)
        raise Invalid([Fault("question", "not_one_of", f"Must be one of {paths}.")])
    if row is EXPLAIN:
        contents.require_units()
    funnel_id, names = str(arguments["funnelId"]), ("funnelId", "question")
    sent = as_parameters({key: arguments[key] for key in arguments if key not in names})
    data = await api.get(_question_path(funnel_id, row), sent)
    if row is UNITS:
        data = contents.without_units(data)
    if row is EXPLAIN and data["unit"]:
        return ToolResult(data, unit_page(funnel_id, data["unit"], sent))
    return ToolResult(data, report_page(funnel_id, row.path, sent))


async def _explain_number(api: Api, contents: ContentsFilter, arguments: Arguments) -> ToolResult:
    """Answer three questions: the verdict, the report, and what differs for the largest loss."""
    funnel_id = str(arguments["funnelId"])
    sent = as_parameters({key: arguments[key] for key in arguments if key != "funnelId"})

    async def ask(row: FunnelQuestion[Any, Any], **more: str) -> Json:
        return await api.get(_question_path(funnel_id, row), _fields(row.query, sent) | more)

    verdict = await ask(VERDICT, forecast=sent.get("forecast", "true"))
    report = await ask(RESULTS, pageSize="1")
    step = verdict["largestLoss"]
    data = {
        "verdict": verdict,
        "figures": report["aggregate"],
        "receipt": report["receipt"],
        "whatDiffers": None if step is None else await ask(DRIVERS, step=str(step)),
        "coverage": report["coverage"],
        "dataQuality": report["dataQuality"],
        "impossibleSteps": report["impossibleSteps"],
    }
    return ToolResult(data, report_page(funnel_id, VERDICT.path, sent))


# Drafts of funnels

_FUNNEL_RULES: Json = short(FunnelIn.model_json_schema())


def _draft_name(definition: Any, checked: Json) -> str:
    """Return the name of a draft, which depends on everything that would be saved."""
    head = {key: definition.get(key) for key in ("name", "folder")}
    return f"draft_{sha256(to_json([head, checked])).hexdigest()[:16]}"


async def _draft(api: Api, _: ContentsFilter, arguments: Arguments) -> ToolResult:
    definition = arguments["definition"]
    checked = await api.post("/api/funnels/validate", definition)
    data = {
        "draft": _draft_name(definition, checked),
        "definition": checked,
        "saved": False,
        "next": "Show the definition to the user. To save it, call save_funnel with this draft and "
        "the same definition.",
    }
    return ToolResult(data, "/funnels/new", is_filtered=False)


async def _save(api: Api, _: ContentsFilter, arguments: Arguments) -> ToolResult:
    definition = arguments["definition"]
    checked = await api.post("/api/funnels/validate", definition)
    if arguments["draft"] != _draft_name(definition, checked):
        raise Conflict(
            "This definition is not the draft's. Call draft_funnel with it, show it to the user, "
            "and save it with the draft's name.",
            code="other_draft",
        )
    funnel = await api.post("/api/funnels", definition, {"draft": arguments["draft"]})
    return ToolResult(funnel, funnel_page(funnel["id"]), is_filtered=False)


TOOLS: tuple[Tool, ...] = (
    _reading(
        "list_websites",
        "Websites and apps",
        "Lists the websites and apps of the workspace. Other tools accept their IDs as websiteId.",
        "/api/settings/websites",
        PageQuery,
        lambda *_: "/settings/websites",
    ),
    _reading(
        "list_funnels",
        "Saved funnels",
        "Lists saved funnels with their IDs and definitions.",
        "/api/funnels",
        FunnelsQuery,
        lambda *_: "/funnels",
    ),
    _reading(
        "describe_funnel",
        "A funnel",
        "Returns the definition of a funnel: what it counts, its steps, window and breakdown.",
        "/api/funnels/{funnelId}",
        None,
        lambda ids, _: f"{funnel_page(ids['funnelId'])}/edit",
        in_path=_FUNNEL,
    ),
    Tool(
        "ask_funnel",
        "Ask about a funnel",
        "Answers a question about a funnel. Choose the period with startAt and endAt; without "
        f"them, the answer is about all time. Questions:\n{about_questions(QUESTIONS)}",
        schema_of(
            {
                **_FUNNEL,
                "question": {"type": "string", "enum": [row.path for row in QUESTIONS]},
                **parameters_of_all(QUESTIONS),
            },
            ["funnelId", "question"],
        ),
        _ask,
    ),
    Tool(
        "explain_number",
        "Why a number is what it is",
        "Explains the conversion of a funnel: the verdict in sentences with the change from an "
        "earlier period, what differs between lost and other units at the largest loss, how "
        "complete the data are, and problems of their quality.",
        schema_of(_FUNNEL | parameters_of(VERDICT.query)[0], ["funnelId"]),
        _explain_number,
    ),
    _reading(
        "explain_unit",
        "Why a unit counts as it does",
        "Returns the trace of one unit (an attempt or a visitor): each of its events in order, "
        "with the decision on it.",
        "/api/funnels/{funnelId}/units/{unit}",
        AdHocQuery,
        lambda ids, sent: unit_page(ids["funnelId"], ids["unit"], sent),
        in_path={
            **_FUNNEL,
            "unit": {"type": "string", "description": "ID of a unit: an attempt or a visitor."},
        },
        check=lambda contents, _: contents.require_units(),
    ),
    _reading(
        "find_events",
        "Names of events",
        "Lists names of events, page paths and screens, most frequent first.",
        "/api/schema/events",
        NamesQuery,
        lambda *_: "/funnels/new",
    ),
    _reading(
        "find_properties",
        "Properties of events",
        "Lists properties of events with their types, most frequent first.",
        "/api/schema/properties",
        PropertiesQuery,
        lambda *_: "/funnels/new",
    ),
    _reading(
        "find_values",
        "Values of a property",
        "Lists the most frequent values of a property, if the workspace shares them.",
        "/api/schema/values",
        ValuesQuery,
        lambda *_: "/funnels/new",
        check=lambda contents, arguments: contents.require_property(str(arguments["property"])),
    ),
    Tool(
        "draft_funnel",
        "Draft a funnel",
        "Checks the definition of a new funnel and names the draft. Saves nothing. Find names with "
        "find_events first.",
        schema_of(
            {"definition": {key: _FUNNEL_RULES[key] for key in _FUNNEL_RULES if key != "$defs"}},
            ["definition"],
            _FUNNEL_RULES["$defs"],
        ),
        _draft,
    ),
    Tool(
        "save_funnel",
        "Save a drafted funnel",
        "Saves a funnel that draft_funnel has checked, after the user has agreed. Safe to repeat: "
        "a draft becomes one funnel. Needs an API key with the scope manage.",
        schema_of(
            {
                "draft": {"type": "string", "description": "Name from draft_funnel."},
                "definition": {
                    "type": "object",
                    "description": "The definition, exactly as sent to draft_funnel.",
                },
            },
            ["draft", "definition"],
        ),
        _save,
        changes=True,
    ),
)
