"""The names of rows and steps as reports show them."""

from penstock.funnels.definitions.model import ANY_NAME
from penstock.funnels.definitions.schema import SavedDefinition, SavedMatch, SavedStep

_MAX_TITLE_NAMES = 3


def match_name(match: SavedMatch) -> str:
    """Return the name of a match as pages show it."""
    return "Any event" if (match.type, match.value) == ("Event", ANY_NAME) else match.value


def row_names(row: SavedStep) -> list[str]:
    """Return the names of all options or parts of a row."""
    return [match_name(match) for match in (row, *row.or_)]


def row_title(row: SavedStep) -> str:
    """Return the name of a row. If it has none, return at most three names of its options or parts,
    and the number of the others.
    """
    if row.name:
        return row.name
    names = row_names(row)
    shown = names[:_MAX_TITLE_NAMES]
    if others := len(names) - len(shown):
        shown.append(f"{others} more")
    return (" and " if row.mode else " or ").join(shown)


def step_titles(definition: SavedDefinition) -> list[str]:
    """Return the names of the steps. In any order, a step is a number of rows that were done."""
    steps = [row for row in definition.steps if row.required]
    if definition.order == "any":
        return [f"{step} of {len(steps)} done" for step in range(1, len(steps) + 1)]
    return [row_title(row) for row in steps]
