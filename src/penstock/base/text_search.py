"""Searches a text for many substrings at once."""

from bisect import bisect_right
from collections.abc import Callable, Collection

_FEW_PARTS = 16


def containing_any(parts: Collection[str]) -> Callable[[str], bool]:
    """Return a function that checks whether a text contains any of the parts.

    Its running time hardly grows with the number of parts.
    """
    wanted = list[str]()
    for part in sorted(set(parts)):
        # A part that starts with a shorter part is redundant.
        if not (wanted and part.startswith(wanted[-1])):
            wanted.append(part)
    if len(wanted) <= _FEW_PARTS:
        return lambda text: any(part in text for part in wanted)
    longest, shortest = max(map(len, wanted)), min(map(len, wanted))
    beginnings = {part[:shortest] for part in wanted}

    def contains(text: str) -> bool:
        for start in range(len(text) - shortest + 1):
            if text[start : start + shortest] not in beginnings:
                continue
            rest = text[start : start + longest]
            # No part is a prefix of another, so only the last part that sorts at or before `rest`
            # can match.
            index = bisect_right(wanted, rest)
            if index and rest.startswith(wanted[index - 1]):
                return True
        return False

    return contains
