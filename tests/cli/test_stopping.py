"""A process that was told to stop ends in time."""

import subprocess
import sys

from tests.waiting import PATIENCE_S

HANGING = """
from time import sleep
from penstock.cli.stopping import limit_stop
limit_stop(0.1)
sleep(600)
"""


def test_a_process_that_hangs_ends_after_its_time() -> None:
    process = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert process.returncode == 1
    assert b"stop_took_too_long" in process.stdout + process.stderr
