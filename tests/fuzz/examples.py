"""The number and choice of random cases that the tests in this folder try.

`make test` tries the same few cases each time, so that only a change can make it fail. `make fuzz`
tries `PENSTOCK_FUZZ_EXAMPLES` new cases of each kind.
"""

import os

from hypothesis import HealthCheck, settings

_NUMBER = os.environ.get("PENSTOCK_FUZZ_EXAMPLES")
BY_HAND = _NUMBER is not None


def fuzz_examples(sample: int) -> int:
    """Return the number of cases to try. sample: the number in `make test`."""
    return int(_NUMBER or sample)


def fuzz_settings(sample: int, *, times: float = 1) -> settings:
    """Settings for a property test. times: factor for `make fuzz`; lower it for expensive cases."""
    return settings(
        max_examples=max(1, round(fuzz_examples(sample) * (times if BY_HAND else 1))),
        derandomize=not BY_HAND,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
