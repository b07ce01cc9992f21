"""Commands that run beside a service."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.processes import new_python
from tests.serving import PENSTOCK, environment, penstock


def keys_of(service: Any) -> dict[str, str]:
    """Return the settings of a command that calls the service (fixture `service`)."""
    return {"PENSTOCK_URL": service.url, "PENSTOCK_API_KEY": service.key}


def run(service: Any, *arguments: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a command that calls the service, and wait until it ends."""
    return penstock(*map(str, arguments), **{**keys_of(service), **settings})


def logged(output: str) -> list[dict[str, Any]]:
    """Return the JSON lines of the log in an output."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def start(
    *arguments: object, log: Path = Path(os.devnull), **settings: str
) -> subprocess.Popen[bytes]:
    """Start a command and do not wait for it. log: file with its output."""
    output = {"stdout": log, "stderr": log}
    return new_python(
        *PENSTOCK, *map(str, arguments), environment=environment(**settings), **output
    )
