"""Stored outcomes of an attempt funnel, read instead of folding events.

A row contains everything that the folds computed for one unit. It depends neither on the reporting
period nor on the time of the query. Merges of visitors don't change rows: if a unit has several
visitors, its row contains their IDs before any merge.
"""

from penstock.funnels.statements.query import Plan, StoredBuild


def stored_units(plan: Plan) -> str:
    """Return the stored units whose entry is in the period, with the columns of `counted`."""
    stored = "funnel_outcomes"
    return f"""
    SELECT unit, {_pick(plan, f"{stored}.keys", "UInt64")} AS keys, reached, entry_ts,
           entry_ts + took AS done_ts, chosen, skips, ties, invalid, tied,
           {_conflicts(plan, f"{stored}.conflicts")} AS conflicts,
           {_has_several_visitors(plan)} AS several, seen, cut,
           toUInt32(0) AS coarse, toUInt32(0) AS assumed,
           excluded_after,
           reached < {len(plan.steps)} AND excluded_after < 0
               AND {plan.evaluated_at()} <= {plan.window_end("entry_ts")} AS open,
           arrayMap(pause -> entry_ts + pause, arrayCumSum(pauses)) AS done,
           {plan.window_end("entry_ts")} AS window_end
    FROM funnel_outcomes FINAL
    WHERE {_is_of_build(plan)} AND reached > 0 AND {plan.in_period("entry_ts")}
          {plan.has_settled(plan.window_end("entry_ts"))}"""


def _build(plan: Plan) -> StoredBuild:
    assert plan.profile.build is not None
    return plan.profile.build


def _is_of_build(plan: Plan) -> str:
    return f"build = {plan.binder.bind('String', _build(plan).name)}"


def _pick(plan: Plan, values: str, engine_type: str) -> str:
    """Select the values of the statement's breakdown properties from a list of stored values."""
    picked = ", ".join(f"{values}[{position}]" for position in _build(plan).positions)
    return f"CAST([{picked}], 'Array({engine_type})')"


def _conflicts(plan: Plan, conflicts: str) -> str:
    bits = [
        f"{1 << j} * bitTest({conflicts}, {position - 1})"
        for j, position in enumerate(_build(plan).positions)
    ]
    return f"toUInt8({' + '.join(bits) or '0'})"


def _has_several_visitors(plan: Plan) -> str:
    """Whether a unit has events of several canonical visitors."""
    if not plan.profile.has_aliases:
        return "notEmpty(visitors)"
    scopes = plan.binder.bind("Array(String)", list(plan.params.scope_ids))
    return f"""unit IN (
               SELECT unit FROM (
                   SELECT unit, arrayJoin(visitors) AS visitor_key
                   FROM funnel_outcomes FINAL WHERE {_is_of_build(plan)}) AS sent
               LEFT ANY JOIN (
                   SELECT visitor_key, argMax(canonical_key, version) AS canonical_key
                   FROM visitor_aliases WHERE scope_id IN {scopes} GROUP BY visitor_key) AS aliases
                   ON sent.visitor_key = aliases.visitor_key
               GROUP BY unit
               HAVING uniqExact(if(aliases.canonical_key = 0, sent.visitor_key,
                                   aliases.canonical_key)) > 1)"""


def stored_values(plan: Plan) -> str:
    """Return all combinations of entry values, with the columns of `entry_values`."""
    stored = "funnel_outcome_values"
    return f"""
    SELECT value, {_pick(plan, f"any({stored}.keys)", "UInt64")} AS keys,
           {_pick(plan, f"any({stored}.texts)", "String")} AS texts
    FROM {stored} WHERE {_is_of_build(plan)} GROUP BY value"""


def stored_unitless(plan: Plan) -> str:
    """Return the rows that count the period's events without a unit, in the column `events`."""
    return f"""funnel_outcome_unitless FINAL
    WHERE {_is_of_build(plan)} AND {plan.in_period("ts")} AND ts <= {plan.evaluated_at()}"""
