"""Targets of the Makefile agree with the commands that they run."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def command_of(*arguments: str) -> str:
    """The last command that `make` would run."""
    # As if a user had typed it: a `make` around these tests passes its own variables on.
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MAKE") and name not in ("MFLAGS", "DATA", "HOST", "PORT")
    }
    ran = subprocess.run(
        ["make", "--dry-run", *arguments],
        cwd=ROOT,
        env=inherited,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout.splitlines()[-1].strip()


def test_make_serve_uses_the_default_data_folder_of_penstock_serve() -> None:
    assert command_of("serve") == ".venv/bin/penstock serve --host 127.0.0.1 --port 8000"


def test_make_serve_uses_the_folder_that_data_names() -> None:
    assert command_of("serve", "DATA=/srv/events").endswith(" --data /srv/events")
