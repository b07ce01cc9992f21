"""The wheel alone, installed in each documented way from PyPI, shows the demo's funnel.

`make test-install` runs these tests: they download 250 MB. They print the seconds that each way
takes to the first funnel, from an empty cache and from a warm one.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.deploy.demo import assert_pages_and_funnel_are_there, demo_output
from tests.serving import environment

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")

pytestmark = [
    pytest.mark.skipif("PENSTOCK_TEST_INSTALL" not in os.environ, reason="run make test-install"),
    pytest.mark.slow("installs everything from PyPI"),
]


@pytest.fixture(scope="module")
def wheel() -> Path:
    subprocess.run([ROOT / "scripts" / "release", "--build"], check=True)
    [built] = (ROOT / "dist").glob("penstock_server-*.whl")
    return built


def pythons() -> dict[str, Path]:
    """The installed Python of each version: the system's, or the newest one of pyenv."""
    managed = Path.home() / ".pyenv" / "versions"
    paths = {}
    for version in VERSIONS:
        managed_paths = sorted(managed.glob(f"{version}.*/bin/python{version}"))
        if path := shutil.which(f"/usr/bin/python{version}") or (
            managed_paths and str(managed_paths[-1])
        ):
            paths[version] = Path(path)
    return paths


def run(command: Sequence[str | Path], **variables: str) -> None:
    ran = subprocess.run(
        command, env=environment(**variables), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_runs_on_each_python(version: str, wheel: Path, tmp_path: Path) -> None:
    if version not in pythons():
        pytest.skip(f"Python {version} is not installed")
    run([UV, "venv", "--quiet", "--python", pythons()[version], tmp_path / "venv"])
    python = tmp_path / "venv" / "bin" / "python"
    run([UV, "pip", "install", "--quiet", "--only-binary", ":all:", "--python", python, wheel])
    with demo_output([tmp_path / "venv" / "bin" / "penstock"], tmp_path) as shown:
        assert_pages_and_funnel_are_there(shown)


def ways(wheel: Path, folder: Path) -> dict[str, tuple[list[list[str | Path]], list[str | Path]]]:
    """Name of a way -> the commands that install, and the command that runs `penstock`."""
    python, tools = shutil.which("/usr/bin/python3") or sys.executable, folder / "tools"
    pip = folder / "venv" / "bin" / "pip"
    pipx: list[str | Path] = [UV, "tool", "run", "pipx"]
    return {
        "uvx": ([], [UV, "tool", "run", "--python", python, "--from", wheel, "penstock"]),
        "uv tool install": (
            [[UV, "tool", "install", "--quiet", "--python", python, wheel]],
            [tools / "penstock"],
        ),
        "pipx install": (
            [[*pipx, "install", "--quiet", "--python", python, wheel]],
            [tools / "penstock"],
        ),
        "pip install": (
            [[python, "-m", "venv", folder / "venv"], [pip, "install", "--quiet", wheel]],
            [folder / "venv" / "bin" / "penstock"],
        ),
    }


@pytest.fixture
def caches(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Caches that only this test uses, deleted afterwards because they are large."""
    folder = tmp_path / "caches"
    yield {
        "UV_CACHE_DIR": str(folder / "uv"),
        "PIP_CACHE_DIR": str(folder / "pip"),
        "XDG_CACHE_HOME": str(folder),
    }
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("way", ["uvx", "uv tool install", "pipx install", "pip install"])
def test_each_way_of_installing_shows_a_funnel(
    way: str, wheel: Path, tmp_path: Path, caches: dict[str, str]
) -> None:
    seconds = []
    for cache in ("empty", "warm"):
        folder = tmp_path / cache
        folder.mkdir()
        variables = caches | {
            "UV_TOOL_DIR": str(folder / "uv-tools"),
            "UV_TOOL_BIN_DIR": str(folder / "tools"),
            "PIPX_HOME": str(folder / "pipx"),
            "PIPX_BIN_DIR": str(folder / "tools"),
        }
        begin_s = time.monotonic()
        installing, running = ways(wheel, folder)[way]
        for command in installing:
            run(command, **variables)
        installed_s = time.monotonic() - begin_s
        with demo_output(running, folder, **variables) as shown:
            assert_pages_and_funnel_are_there(shown)
            seconds.append((installed_s, time.monotonic() - begin_s))
        shutil.rmtree(folder, ignore_errors=True)
    figures = " | ".join(f"{done:.0f} ({installed:.0f})" for installed, done in seconds)
    print(f"\n| {shlex.join(way.split())} | {figures} |")
