"""Runs `penstock demo` of an installed package and asks for what it prints."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.serving import environment


@contextmanager
def demo_output(command: Sequence[str | Path], folder: Path, **variables: str) -> Iterator[str]:
    """Run the demo outside the checkout. Yield its output once it is ready; stop it afterwards.

    command: starts `penstock`, without arguments.
    """
    with subprocess.Popen(
        [*command, "demo", "--port", "0"],
        cwd=folder,
        env={**environment(**variables), "PYTHONPATH": ""},
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as demo:
        assert demo.stdout is not None
        try:
            shown = ""
            for line in demo.stdout:
                shown += line
                if "Ctrl-C stops the demo" in line:
                    break
            yield shown
        finally:
            os.killpg(demo.pid, 2)
            demo.wait(120)
    assert demo.returncode == 0


def assert_pages_and_funnel_are_there(shown: str) -> None:
    """Request the funnel as the demo says, and open the documentation that it names."""
    curl = re.search(r"curl -H '(\w+): (.+?)' '(.+?)'", shown)
    assert curl is not None, shown
    header, value, url = curl.groups()
    funnel = httpx.get(url, headers={header: value}, timeout=60).raise_for_status().json()
    assert funnel["aggregate"]["steps"][0]["count"] > 100
    api = re.search(r"API   (\S+)", shown)
    assert api is not None, shown
    page = httpx.get(api[1], timeout=60).raise_for_status().text
    for path in set(re.findall(r'href="(/api/docs[^"#]*)', page)):
        httpx.get(str(httpx.URL(api[1]).join(path)), timeout=60).raise_for_status()
