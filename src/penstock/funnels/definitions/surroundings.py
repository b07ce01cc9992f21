"""What definitions are checked against beyond themselves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.funnels.definitions.records import SavedMatch
from penstock.settings import Settings


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The context in which goals and funnels are validated.

    goals: the workspace's goals by name. check_regex: raises RuleBroken when the engine cannot compile the pattern. limits: how long the
    names and paths of events may be.
    """

    goals: Mapping[str, SavedMatch]
    check_regex: Callable[[str], None]
    limits: Settings
