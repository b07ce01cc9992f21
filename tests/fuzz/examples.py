"""The number and choice of random cases that the tests of this folder try.

`make test` tries the same few each time, so that it fails because of a change and not by chance.
`make fuzz` tries `PENSTOCK_FUZZ_EXAMPLES` new cases of each kind.
"""

import os

from hypothesis import HealthCheck, settings

_NUMBER = os.environ.get("PENSTOCK_FUZZ_EXAMPLES")
BY_HAND = _NUMBER is not None


def fuzz_examples(sample: int) -> int:
    """Number of cases. sample: the number in `make test`."""
    return int(_NUMBER or sample)


def fuzz_settings(sample: int, *, times: float = 1) -> settings:
    """Settings for a property. times: factor for `make fuzz`, by the cost of a case."""
    return settings(
        max_examples=max(1, round(fuzz_examples(sample) * (times if BY_HAND else 1))),
        derandomize=not BY_HAND,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
