"""Programs that tests run to their end, such as Node.js and a shell."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.waiting import PATIENCE_S


def run_program(
    command: Sequence[str | Path],
    text: str | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    may_warn: bool = False,
) -> str:
    """Run a program, which must succeed. Returns its standard output. text: its input.

    may_warn: whether it may write to its standard error.
    """
    ran = subprocess.run(
        command,
        input=text,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert may_warn or ran.stderr == "", ran.stdout
    return ran.stdout
