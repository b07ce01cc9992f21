"""The first funnel of docs/start.md, pasted into a shell, gives the response shown there."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.serving import Served, environment
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
START = (ROOT / "docs/start.md").read_text("utf-8")
SHOWN_URL = "http://127.0.0.1:8000"


def block(language, containing):
    """The one fenced block of a language that holds a text."""
    [match] = [
        text
        for text in re.findall(rf"^```{language}\n(.*?)^```$", START, re.MULTILINE | re.DOTALL)
        if containing in text
    ]
    return match


def holds(answer, shown):
    """Whether a response fits its shortened form, in which objects may lack fields."""
    if isinstance(shown, dict):
        return isinstance(answer, dict) and all(
            name in answer and holds(answer[name], value) for name, value in shown.items()
        )
    if isinstance(shown, list):
        return (
            isinstance(answer, list)
            and len(answer) == len(shown)
            and all(map(holds, answer, shown))
        )
    return type(answer) is type(shown) and answer == shown


def paste(commands, folder):
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(),
    )


@pytest.mark.usefixtures("starts_service")
def test_the_first_funnel_by_curl_gives_the_answer_shown_also_when_it_is_pasted_again(tmp_path):
    commands = block("sh", "/api/funnels")
    assert commands.startswith(f"URL={SHOWN_URL}\n")
    with Served(tmp_path / "data") as service:
        commands = commands.replace(SHOWN_URL, service.url)
        first, again = paste(commands, tmp_path), paste(commands, tmp_path)
    for pasted in (first, again):
        assert (pasted.returncode, pasted.stderr) == (0, "")
        results = json.loads(pasted.stdout[pasted.stdout.index("{\n") :])
        assert holds(results, json.loads(block("json", "medianCompletionMinutes")))
    assert "run this before" not in first.stdout
    assert "probably because you have run this before. Logging in" in again.stdout


@pytest.mark.usefixtures("starts_service")
def test_the_first_funnel_on_the_service_of_somebody_else_says_what_is_wrong(tmp_path):
    with Served(tmp_path / "data") as service:
        service.first_account()
        pasted = paste(block("sh", "/api/funnels").replace(SHOWN_URL, service.url), tmp_path)
    assert pasted.returncode == 1
    assert "Sign-up is closed" in pasted.stdout
    assert "Traceback" not in pasted.stderr


def test_the_links_of_the_readme_have_targets():
    targets = [link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("http")]
    assert targets
    assert [link for link in targets if not (ROOT / link.partition("#")[0]).exists()] == []


def test_the_readme_is_one_screen_and_names_the_commands_of_ci():
    assert len(README.splitlines()) <= 60
    assert README.count("![") == 1
    assert "\nmake test " in README
