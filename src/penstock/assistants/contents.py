"""Removes from responses of the API what the workspace does not share with assistants."""

from collections.abc import Mapping
from typing import Any, Self

from penstock.accounts.workspace.model import Contents, SharedContents
from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.errors import Forbidden
from penstock.base.ids import WorkspaceId
from penstock.base.scalar import plain_text
from penstock.base.wording import ordinal
from penstock.funnels.definitions.builtins import TRAIT_PREFIX

_SETTING = "To change that, see Settings, Workspace, Sharing"
_UNITS_HIDDEN = f"This workspace shares no units and user IDs with assistants. {_SETTING}: units."
_ABOUT_VALUES = {
    "results": "one value of {}",
    "compare": "Values of {} convert differently",
    "drivers": "One value of {} stands out",
}
"""Phrases without their values, by the response that shows them."""
_MISSING = (None, "Unknown", "")


class ContentsFilter:
    """Filters responses by what a workspace shares with assistants.

    `notes` says what was left out. Values of properties that are not shared become numbers, which
    are the same within one answer.
    """

    def __init__(self, shared: SharedContents, person_trait: str | None) -> None:
        self._shared = shared
        self._may_name_people = person_trait is None or self.shows(TRAIT_PREFIX + person_trait)
        self._numbers: dict[str, dict[str, int]] = {}
        self._notes = dict[str, None]()

    @classmethod
    def of(cls, workspaces: WorkspaceService, workspace_id: WorkspaceId) -> Self:
        """Blocks on a cache miss."""
        shared = workspaces.shared_contents(workspace_id)
        return cls(shared, workspaces.person_trait(workspace_id))

    @property
    def notes(self) -> list[str]:
        hidden = ", ".join(sorted(self._numbers))
        values = (
            f'Values of {hidden} are hidden: "1st value" stands for one. {_SETTING}: properties.'
        )
        return [*self._notes, *([values] if hidden else [])]

    def shows(self, property_: str) -> bool:
        return property_ in self._shared.properties

    def require_property(self, property_: str) -> None:
        """Raise `Forbidden` if values of a property are not shared."""
        if not self.shows(property_):
            raise Forbidden(
                f"This workspace does not share values of {property_} with assistants. "
                f"{_SETTING}: properties.",
                code="values_not_shared",
            )

    def require_units(self) -> None:
        """Raise `Forbidden` if single units are not shared."""
        if self._shared.level is not Contents.UNITS:
            raise Forbidden(_UNITS_HIDDEN, code="units_not_shared")

    def without_units(self, page: dict[str, Any]) -> dict[str, Any]:
        """Return a page of units without them, unless they are shared."""
        if self._shared.level is Contents.UNITS:
            return page
        self._notes[_UNITS_HIDDEN] = None
        return {**page, "data": [], "nextCursor": None}

    def apply(self, part: Any) -> Any:
        """Return a response, or a part of one, with what may be shown."""
        if isinstance(part, list):
            return [self.apply(each) for each in part]
        if not isinstance(part, dict):
            return part
        return {key: self._field(part, key, value) for key, value in part.items()}

    def _field(self, record: dict[str, Any], key: str, value: Any) -> Any:
        of = record.get("property")
        match key:
            case "cohort" | "label" if isinstance(value, dict):
                return {name: self._value(name, each) for name, each in value.items()}
            case "entryValues":
                return {
                    name: {**each, "value": self._value(name, each["value"])}
                    for name, each in value.items()
                }
            case "properties" if isinstance(value, dict):
                return {name: self._value(name, each) for name, each in value.items()}
            case "value" | "entryValue" | "baseline" if isinstance(of, str):
                return self.apply(value) if isinstance(value, dict) else self._value(of, value)
            case "text" if "shows" in record:
                return self._phrase(record)
            case "text" if "phrases" in record:
                return "".join(map(self._phrase, record["phrases"]))
            case "summary" if isinstance(of, str) and not self.shows(of):
                return None
            case "segment" if isinstance(value, dict) and self._shared.level is Contents.FIGURES:
                return {**value, "name": None}  # people name segments by values
            case "person" if not self._may_name_people:
                return None
        return self.apply(value)

    def _value(self, property_: str, value: Any) -> Any:
        """Return a value of a property, or its number."""
        if value in _MISSING or self.shows(property_):
            return value
        numbers = self._numbers.setdefault(property_, {})
        return f"{ordinal(numbers.setdefault(plain_text(value), len(numbers) + 1))} value"

    def _phrase(self, phrase: Mapping[str, Any]) -> str:
        """Return the text of a verdict's phrase, without values."""
        text: str = phrase["text"]
        hidden = [name for name in phrase.get("properties", ()) if not self.shows(name)]
        if not hidden:
            return text
        self._numbers.setdefault(hidden[0], {})
        return _ABOUT_VALUES[phrase["shows"]["by"]].format(hidden[0])
