"""The files of `deploy/` and the workflows are valid, and set only settings that exist."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "penstock.service"
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not installed"
)


def run(*command: str | Path) -> str:
    """The output of a command that must succeed."""
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def python_tool(name: str) -> Path:
    return Path(sys.executable).parent / name


def test_compose_files_follow_their_schema() -> None:
    files = sorted(DEPLOY.glob("compose*.yaml"))
    assert len(files) == 4
    run(python_tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", *files)


def test_workflows_follow_their_schema() -> None:
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    run(python_tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *files)


def test_kubernetes_manifests_follow_their_schema() -> None:
    run(python_tool("kubernetes-validate"), "--strict", DEPLOY / "kubernetes.yaml")


@needs_systemd
def test_the_unit_is_valid_and_gives_few_rights(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    program = re.search(r"^ExecStart=(\S+)", UNIT.read_text(), re.MULTILINE)
    assert program is not None
    unit.write_text(UNIT.read_text().replace(program[1], "/bin/true"))
    run("systemd-analyze", "verify", unit)
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)


@pytest.mark.parametrize("file", sorted(DEPLOY.iterdir()), ids=lambda file: file.name)
def test_only_settings_that_exist_are_set(file: Path) -> None:
    settings = {f"PENSTOCK_{name.upper()}" for name in Settings.model_fields}
    named = set(re.findall(r"PENSTOCK_[A-Z_]+", file.read_text()))
    assert named <= settings


@pytest.mark.usefixtures("warehouse")
def test_the_image_has_the_locked_packages_and_nothing_that_it_need_not_copy() -> None:
    steps = (DEPLOY / "Containerfile").read_text()
    assert "--require-hashes -r requirements.lock" in steps
    assert "\npsycopg==" in (ROOT / "requirements.lock").read_text()
    copied = set(re.findall(r"^COPY (?!--from)(.+) \./", steps, re.MULTILINE))
    sources = {name for line in copied for name in line.split()}
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in sources} == {line for line in ignored if line.startswith("!")}
    assert all((ROOT / name).exists() for name in sources)


def test_documents_install_files_and_no_name_of_a_registry() -> None:
    """Nothing is published yet, so somebody else may own the name."""
    folders = ("docs", "deploy", "sdk", "src/penstock/web/templates")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.*"))]
    files = [path for path in files if "node_modules" not in path.parts and path.is_file()]
    by_name = re.compile(r"""\b(uvx|install)( -\S+)* ['"]?@?penstock(?!_|-sdk-)""")
    names = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in (*ROOT.glob("*.md"), *files)
        if path.suffix in {".html", ".md", ".service", ".yaml"} and path.name != "CHANGELOG.md"
        for match in by_name.finditer(path.read_text("utf-8"))
    ]
    assert names == []
