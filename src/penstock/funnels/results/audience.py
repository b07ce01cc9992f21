"""The visitors that a report counts, out of all, and what its choices left out."""

from dataclasses import replace
from functools import partial

from penstock.base.paging import Page
from penstock.base.rates import rate
from penstock.funnels.definitions.ad_hoc import AdHocChanges
from penstock.funnels.internal_traffic.model import InternalTraffic
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.results.schema import AudienceRecord, LeftOutRecord
from penstock.funnels.results.shaping import read_total
from penstock.funnels.statements.query import Sort
from penstock.funnels.statements.report import build
from penstock.funnels.statements.unit_visitors import count_visitors, count_visitors_of_units


def read_audience(runner: FunnelQueryRunner, context: QueryContext) -> AudienceRecord:
    """Return whom the report on a saved funnel counts.

    Takes a statement for the visitors, one for each choice and, in addition to the report itself,
    up to two more. All of them are cached. Raises the same errors as `FunnelQueryRunner.fetch`.
    """
    definition, params = context.definition, context.params
    statement = count_visitors(definition, params, context.profile)
    [row] = runner.fetch_events(context, statement).rows
    visitors: int = row["visitors"]
    entered = _visitors_of_units(runner, context)
    return AudienceRecord(
        visitors=visitors,
        entered=entered,
        share=rate(entered, visitors),
        left_out=_left_out(runner, context),
    )


def _visitors_of_units(runner: FunnelQueryRunner, context: QueryContext) -> int:
    """Return the number of visitors of the counted units."""
    if not (context.definition.attempt_keys or context.definition.repeat):
        return _entered(runner, context)
    [row] = runner.fetch(
        context, lambda profile: count_visitors_of_units(context.counted(profile))
    ).rows
    visitors: int = row["visitors"]
    return visitors


def _left_out(runner: FunnelQueryRunner, context: QueryContext) -> LeftOutRecord:
    """Return the units that each choice of the request left out, in all cohorts, settled or not."""
    ad_hoc = context.ad_hoc
    changes: dict[str, AdHocChanges] = {}
    if context.internal_traffic is InternalTraffic.LEFT_OUT:
        changes["internal"] = replace(ad_hoc, internal=True)
    if ad_hoc.segment is not None:
        changes["segment"] = replace(ad_hoc, segment=None)
    if ad_hoc.filters:
        changes["filters"] = replace(ad_hoc, filters=None)
    if not changes:
        return LeftOutRecord(internal=None, segment=None, filters=None)
    entered = _entered(runner, context.with_params(cohort={}, settled=False))
    counts = {
        name: _entered(runner, runner.ask_otherwise(context, change)) - entered
        for name, change in changes.items()
    }
    return LeftOutRecord(**{name: counts.get(name) for name in LeftOutRecord.model_fields})


def _entered(runner: FunnelQueryRunner, context: QueryContext) -> int:
    """Return the number of units that a report counts. The report shares the cached rows."""
    params = replace(context.params, page=Page(), sort=Sort.ENTERED, descending=True, search="")
    result = runner.fetch(context, partial(build, context.definition, params))
    entered: int = read_total(context.definition, result.rows)["counts"][0]
    return entered
