"""Plain types for alerts. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    """A message of an alert, for every channel.

    lines: whole sentences. link: absolute URL of the report that reproduces the figures. figures:
    the same for programs; values are JSON. corrects: ID of the message that this one corrects.
    """

    subject: str
    lines: tuple[str, ...]
    link: str
    figures: Mapping[str, Any]
    corrects: str | None = None
