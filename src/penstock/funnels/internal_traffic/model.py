"""Plain types for internal traffic. No I/O."""

from enum import StrEnum


class InternalTraffic(StrEnum):
    """How a report treats the internal traffic of its workspace."""

    LEFT_OUT = "leftOut"
    INCLUDED = "included"
