"""Reads definitions in the API's format with the service's own code, so that tests can evaluate
them.
"""

import json
from collections.abc import Mapping
from typing import Any

from penstock.funnels.definitions.definition import resolve
from penstock.funnels.definitions.model import Definition
from penstock.funnels.definitions.schema import (
    GoalRecord,
    MatchIn,
    SavedMatch,
    ValidationContext,
)
from penstock.funnels.saved.schema import FunnelIn

Json = Mapping[str, Any]


def resolved(funnel: Json, goals: Mapping[str, Json] | None = None) -> Definition:
    """Return the funnel in the form that the service evaluates.

    Raises ValidationError if the API would reject it.

    goals: the match of each goal by name.
    """
    matches: dict[str, SavedMatch] = {}
    context = ValidationContext(matches, lambda _: None, names_cohorts=True)
    for name, match in (goals or {}).items():
        matches[name] = MatchIn.model_validate_json(json.dumps(match), context=context).saved()
    body = json.dumps({"name": "Funnel", **funnel})
    saved = FunnelIn.model_validate_json(body, context=context).saved()
    records = {
        name: GoalRecord(
            id=f"goal_{name}", name=name, match=match, revision=1, created_at="", updated_at=""
        )
        for name, match in matches.items()
    }
    return resolve(saved, records, context.check_regex)
