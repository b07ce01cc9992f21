"""Searching a text for many others at once."""

from bisect import bisect_right
from collections.abc import Callable, Collection

_FEW = 16


def containing_any(parts: Collection[str]) -> Callable[[str], bool]:
    """Whether a text contains one of the parts, in a time that hardly grows with their number."""
    wanted = list[str]()
    for part in sorted(set(parts)):
        # What begins with another part is found with that one.
        if not (wanted and part.startswith(wanted[-1])):
            wanted.append(part)
    if len(wanted) <= _FEW:
        return lambda text: any(part in text for part in wanted)
    longest, shortest = max(map(len, wanted)), min(map(len, wanted))
    beginnings = {part[:shortest] for part in wanted}

    def contains(text: str) -> bool:
        for start in range(len(text) - shortest + 1):
            if text[start : start + shortest] not in beginnings:
                continue
            rest = text[start : start + longest]
            # No part begins with another, so only the last one up to the rest can begin it.
            place = bisect_right(wanted, rest)
            if place and rest.startswith(wanted[place - 1]):
                return True
        return False

    return contains
