"""The number and choice of random cases that the property tests try.

`make test` tries the same cases every time, so that only a change can make it fail. With
`PENSTOCK_EXAMPLES`, as in `make property` and `make test-full`, the cases are new each time.
"""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase

Test = Callable[..., Any]

_NUMBER = os.environ.get("PENSTOCK_EXAMPLES")


def example_count(default: int) -> int:
    """Return the total number of cases in all shares of a property."""
    return int(_NUMBER or default)


def shares_of(count: int, least: int) -> range:
    """Divide the `count` cases of a property into shares, which workers run in parallel.

    A share has at most 50 cases, so that no worker of a long run starts an hour of work last. The
    first case of each share is the simplest one, so small shares would try little else.
    """
    return range(max(least, count // 50))


def example_settings(count: int, kind: str = "any") -> settings:
    """Return settings for a property that tries `count` cases.

    kind: name of the strategy, if a test has several. Each kind has its own database of failed
    cases. In a common one, a replay under another strategy would succeed and remove the case.
    """
    own = settings(
        max_examples=max(1, count),
        derandomize=_NUMBER is None,
        print_blob=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    if _NUMBER is None:
        return own
    return settings(own, database=DirectoryBasedExampleDatabase(f".hypothesis/examples/{kind}"))


def share_of_cases(share: int) -> Callable[[Test], Test]:
    """Decorate a property test so that each share tries different cases."""
    return seed(share) if _NUMBER is None else lambda test: test
