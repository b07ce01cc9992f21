"""What the validation of goals and funnels needs to know beyond the input."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.funnels.definitions.records import SavedMatch
from penstock.settings import Settings


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """The context in which goals and funnels are validated.

    goals: the workspace's goals by name. check_regex: raises RuleBroken when the engine cannot
    compile the pattern. limits: maximum lengths of event names and page paths.
    """

    goals: Mapping[str, SavedMatch]
    check_regex: Callable[[str], None]
    limits: Settings
