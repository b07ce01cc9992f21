"""Targets of the Makefile agree with the commands that they run."""

import os
import re
from pathlib import Path

from tests.other_programs import run_program

ROOT = Path(__file__).parents[2]


def dry_run(*arguments: str) -> str:
    """The commands that `make` would run."""
    # As if a user had typed it: a `make` around these tests passes its own variables on.
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MAKE") and name not in ("MFLAGS", "DATA", "HOST", "PORT")
    }
    return run_program(["make", "--dry-run", *arguments], folder=ROOT, environment=inherited)


def command_of(*arguments: str) -> str:
    """The last command that `make` would run."""
    return dry_run(*arguments).splitlines()[-1].strip()


def test_make_dist_needs_only_what_builds_packages() -> None:
    setups = re.findall(r"^scripts/setup (\w+)$", dry_run("--always-make", "dist"), re.MULTILINE)
    assert setups == ["build", "sdk"]


def test_make_serve_uses_the_default_data_folder_of_penstock_serve() -> None:
    assert command_of("serve") == ".venv/bin/penstock serve --host 127.0.0.1 --port 8000"


def test_make_serve_uses_the_folder_that_data_names() -> None:
    assert command_of("serve", "DATA=/srv/events").endswith(" --data /srv/events")
