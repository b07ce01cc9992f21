"""Clients have the version of the Penstock that they come with."""

import json
import tomllib
from pathlib import Path

import penstock

SDK = Path(__file__).parents[2] / "sdk"


def test_clients_have_the_version_of_penstock() -> None:
    package = json.loads((SDK / "js/package.json").read_text("utf-8"))
    lock = json.loads((SDK / "js/package-lock.json").read_text("utf-8"))
    project = tomllib.loads((SDK / "python/pyproject.toml").read_text("utf-8"))["project"]
    versions = {package["version"], lock["version"], lock["packages"][""]["version"]}
    assert versions | {project["version"]} == {penstock.__version__}


def test_the_python_client_has_at_most_720_lines() -> None:
    """Without the tables of results, which are a module that sends nothing."""
    modules = set((SDK / "python/src/penstock_sdk").glob("*.py"))
    tables = SDK / "python/src/penstock_sdk/results.py"
    assert tables in modules
    lines = [len(module.read_text("utf-8").splitlines()) for module in modules - {tables}]
    assert sum(lines) <= 720
