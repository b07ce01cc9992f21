"""A service that merges any number of public claims into a user, like the first release.

`python -m tests.faults.earlier_service serve ...`
"""

from penstock.identity import resolution
from tests import limited

if __name__ == "__main__":
    resolution.MAX_VISITORS_BY_PUBLIC_CLAIMS = 1 << 60
    limited.run()
