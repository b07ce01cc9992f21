"""Runs `penstock` with limits that no setting can change: `TEST_LIMITS='{...}' python -m
tests.limited`.
"""

import json
import os

from penstock.cli.main import app

VARIABLE = "TEST_LIMITS"


def run() -> None:
    """Run the command given by this process's arguments."""
    app(obj=json.loads(os.environ.get(VARIABLE, "{}")))


if __name__ == "__main__":
    run()
