"""The questions that can be asked about a saved funnel, and the files about one.

Each is one row. The API, its reference, jobs and the dashboard's panels read these rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import BaseModel

from penstock.base.ids import WorkspaceId
from penstock.base.row_files import MEDIA_TYPES as ROW_MEDIA_TYPES
from penstock.base.table_files import MEDIA_TYPES
from penstock.base.temporary_files import NamedFile
from penstock.funnels.comparisons.service import compare_cohorts
from penstock.funnels.drivers import read_drivers
from penstock.funnels.flows import read_flows
from penstock.funnels.forecasts.service import read_replays
from penstock.funnels.next_events import read_next
from penstock.funnels.periods import compare_periods
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.schema import PeriodQuery
from penstock.funnels.results.export import export_funnel
from penstock.funnels.results.service import read_results
from penstock.funnels.timing import read_timing
from penstock.funnels.trends import read_trend
from penstock.funnels.units.export import export_units
from penstock.funnels.units.service import list_units
from penstock.funnels.units.table import export_unit_table
from penstock.funnels.units.trace_reader import explain_event
from penstock.funnels.verdicts import read_verdict

Q = TypeVar("Q", bound=PeriodQuery)
R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class FunnelQuestion(Generic[Q, R]):
    """A question about a saved funnel.

    path: end of its address, after `/api/funnels/{funnel_id}/`. summary: its name in the API
    reference. answer: returns the record from a prepared query and its parameters. Its types name
    the models of both, and its docstring describes the question in the API reference. It blocks,
    and raises the same errors as `FunnelQueryRunner.fetch`, and Malformed for parameters that do
    not fit the funnel. reads_all_traits: see `FunnelQueryRunner.prepare`.
    """

    path: str
    summary: str
    answer: Callable[[FunnelQueryRunner, QueryContext, Q], R]
    reads_all_traits: bool = False

    @property
    def query(self) -> type[Q]:
        """The model of the parameters."""
        return _query_of(self.answer)

    @property
    def record(self) -> type[R]:
        model: type[R] = get_type_hints(self.answer)["return"]
        return model

    def ask(
        self,
        runner: FunnelQueryRunner,
        workspace_id: WorkspaceId,
        funnel_id: str,
        query: Q,
        *,
        names_by_trait: bool = True,
    ) -> R:
        """Prepare the query and answer it. Raises the same errors as `FunnelQueryRunner.prepare`
        and `answer`.

        names_by_trait: see `QueryContext`.
        """
        context = runner.prepare_saved(
            workspace_id,
            funnel_id,
            query,
            reads_all_traits=self.reads_all_traits,
            names_by_trait=names_by_trait,
        )
        return self.answer(runner, context, query)


@dataclass(frozen=True, slots=True)
class FunnelExport(Generic[Q]):
    """A file about a saved funnel.

    path, summary: as in `FunnelQuestion`. write: writes the file; otherwise like the answer to a
    question. media_types: by value of the parameter `format`. target: words of the audit log for
    the file, from the funnel's ID and the format.
    """

    path: str
    summary: str
    write: Callable[[FunnelQueryRunner, QueryContext, Q], NamedFile]
    media_types: Mapping[Any, str]
    target: str

    @property
    def query(self) -> type[Q]:
        """The model of the parameters."""
        return _query_of(self.write)


def _query_of(function: Callable[[FunnelQueryRunner, QueryContext, Q], object]) -> type[Q]:
    model: type[Q] = get_type_hints(function)["query"]
    return model


RESULTS = FunnelQuestion("results", "Results of a funnel", read_results)
UNITS = FunnelQuestion("units", "Units behind a number", list_units)
EXPLAIN = FunnelQuestion("explain", "Why an event counts or not", explain_event)
TREND = FunnelQuestion("trend", "Trend of a funnel", read_trend)
TIMING = FunnelQuestion("timing", "Times between steps", read_timing)
NEXT = FunnelQuestion("next", "Next events of a funnel", read_next)
COMPARE = FunnelQuestion("compare", "Compare cohorts of a funnel", compare_cohorts)
PERIODS = FunnelQuestion("periods", "Comparison of two periods", compare_periods)
VERDICT = FunnelQuestion("verdict", "Verdict on a funnel", read_verdict)
DRIVERS = FunnelQuestion("drivers", "Drivers of a loss", read_drivers, reads_all_traits=True)
FLOWS = FunnelQuestion("flows", "Flows of a funnel", read_flows)
REPLAYS = FunnelQuestion("forecast/replays", "Earlier forecasts of a funnel", read_replays)

QUESTIONS: tuple[FunnelQuestion[Any, Any], ...] = (
    RESULTS, UNITS, EXPLAIN, TREND, TIMING, NEXT, COMPARE, PERIODS, VERDICT, DRIVERS, FLOWS,
    REPLAYS,
)  # fmt: skip

EXPORTS: tuple[FunnelExport[Any], ...] = (
    FunnelExport(
        "export",
        "Export of a funnel",
        export_funnel,
        MEDIA_TYPES,
        target="{funnel_id} {format}",
    ),
    FunnelExport(
        "export/units",
        "Export of a list of units",
        export_units,
        MEDIA_TYPES,
        target="{funnel_id} units {format}",
    ),
    FunnelExport(
        "unit-table",
        "Outcomes of all units",
        export_unit_table,
        ROW_MEDIA_TYPES,
        target="{funnel_id} units",
    ),
)
