"""How many random cases the tests of this folder try, and which.

`make test` tries the same few each time, so that it fails because of a change and not by chance.
`make fuzz` tries `PENSTOCK_FUZZ_EXAMPLES` new ones of each kind.
"""

import os

from hypothesis import HealthCheck, settings

_NUMBER = os.environ.get("PENSTOCK_FUZZ_EXAMPLES")
BY_HAND = _NUMBER is not None


def fuzz_examples(sample: int) -> int:
    """sample: how many `make test` tries."""
    return int(_NUMBER or sample)


def fuzz_settings(sample: int, *, times: float = 1) -> settings:
    """times: how many times its number `make fuzz` tries, by what a case costs."""
    return settings(
        max_examples=max(1, round(fuzz_examples(sample) * (times if BY_HAND else 1))),
        derandomize=not BY_HAND,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
