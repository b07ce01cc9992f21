"""`make release` makes a commit, a tag and packages, and the wheel of the server is complete."""

import re
import subprocess
import venv
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

import pytest

from penstock.cli.pages import page_path
from tests.deploy.demo import assert_pages_and_funnel_are_there, demo_output
from tests.serving import environment

ROOT = Path(__file__).parents[2]
NEXT = "99.0.0"

pytestmark = [
    pytest.mark.slow("builds packages and starts the demo from them"),
    pytest.mark.full("builds all packages"),
]


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(GIT_CONFIG_GLOBAL="/dev/null", PYTHONPATH=""),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def succeed(folder: Path, *command: str | Path) -> str:
    ran = run(folder, *command)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with an unreleased change, in which a release was made."""
    folder = tmp_path_factory.mktemp("release") / "penstock"
    succeed(ROOT, "git", "clone", "--quiet", ROOT, folder)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    succeed(folder, "git", "config", "user.name", "Ann")
    succeed(folder, "git", "config", "user.email", "ann@example.com")
    changelog = folder / "CHANGELOG.md"
    before, heading, after = changelog.read_text().partition("\n## [")
    change = "\n## [Unreleased]\n\n### Added\n\n- A change for a test.\n"
    unreleased = after.startswith("Unreleased]")
    changelog.write_text(before + ("" if unreleased else change) + heading + after)
    succeed(folder, "git", "commit", "--quiet", "--allow-empty", "-am", "Change")
    succeed(folder, "scripts/release", NEXT)
    return folder


def test_a_release_is_a_commit_with_a_tag_that_all_versions_and_the_changelog_name(
    checkout: Path,
) -> None:
    assert succeed(checkout, "git", "status", "--porcelain") == ""
    assert succeed(checkout, "git", "describe", "--exact-match").strip() == f"v{NEXT}"
    commits = succeed(checkout, "git", "log", "-2", "--format=%s").splitlines()
    assert commits == [f"Release {NEXT}", "Change"]
    sources = ("src/penstock/__init__.py", "sdk/python/pyproject.toml", "sdk/js/package.json")
    assert all(NEXT in (checkout / source).read_text() for source in sources)
    changelog = (checkout / "CHANGELOG.md").read_text()
    assert "[Unreleased]" not in changelog
    assert changelog.index(f"## [{NEXT}] - ") < changelog.index("## [0.1.1]")
    assert (checkout / "dist" / "notes.md").read_text() in changelog


def test_a_version_that_is_not_newer_or_has_no_changes_is_refused(checkout: Path) -> None:
    again = run(checkout, "scripts/release", NEXT)
    assert (again.returncode, again.stderr) == (1, f"{NEXT} is not newer than {NEXT}.\n")
    nothing = run(checkout, "scripts/release", "99.0.1")
    assert nothing.stderr == "CHANGELOG.md has no changes under [Unreleased].\n"
    succeed(checkout, "git", "tag", "v99.0.2")
    taken = run(checkout, "scripts/release", "99.0.2")
    assert taken.stderr == "The tag v99.0.2 already exists. A version names one commit.\n"
    (checkout / "new.txt").touch()
    dirty = run(checkout, "scripts/release", "99.0.1")
    (checkout / "new.txt").unlink()
    assert dirty.stderr == "Commit or remove the changes in the work tree first.\n"


def test_a_wheel_has_the_same_bytes_each_time(checkout: Path) -> None:
    [wheel] = (checkout / "dist").glob(f"penstock_server-{NEXT}-*.whl")
    before = wheel.read_bytes()
    succeed(checkout, "scripts/release", "--build")
    assert wheel.read_bytes() == before


def test_the_wheel_has_the_pages_that_commands_name(checkout: Path) -> None:
    [wheel] = (checkout / "dist").glob(f"penstock_server-{NEXT}-*.whl")
    members = {name.partition(".data/data/")[2] for name in ZipFile(wheel).namelist()}
    sources = (ROOT / "src" / "penstock" / "cli").glob("*.py")
    named = {
        name
        for source in sources
        for name in re.findall(r"""page_path\(["'](.+?)["']\)""", source.read_text())
    }
    assert len(named) == 3
    assert {f"share/doc/penstock/{name}" for name in named} <= members
    assert all(page_path(name).is_file() for name in named)


def test_the_wheel_alone_shows_the_funnel_of_the_demo(checkout: Path, tmp_path: Path) -> None:
    [wheel] = (checkout / "dist").glob(f"penstock_server-{NEXT}-*.whl")
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    [site] = (tmp_path / "venv" / "lib").glob("*/site-packages")
    ZipFile(wheel).extractall(site)
    # The packages that Penstock needs; Penstock itself is found in the wheel first.
    (site / "dependencies.pth").write_text(str(Path(pytest.__file__).parents[1]))
    [installed] = distributions(name="penstock-server", path=[str(site)])
    for name in ("penstock", "penstock-server"):
        [command] = installed.entry_points.select(group="console_scripts", name=name)
        program = f"import sys; from {command.module} import {command.attr} as run; run()"
        version = succeed(tmp_path, python, "-c", program, "--version")
        assert version == f"penstock {NEXT}\n"
    file = succeed(tmp_path, python, "-c", "import penstock; print(penstock.__file__)")
    assert Path(file.strip()).is_relative_to(site)
    with demo_output([python, "-m", "penstock.cli.main"], tmp_path) as shown:
        assert "checkout_started" in shown
        assert_pages_and_funnel_are_there(shown)
