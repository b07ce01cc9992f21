"""Which folders commands accept as a data folder, and whose files they touch."""

import shutil
import stat
import tarfile
from pathlib import Path

import pytest

from penstock.cli.data_folder import data_folder_lock, require_data_folder
from tests.serving import error_of, output_of, penstock

ARCHIVE = Path(__file__).parent.parent / "stores" / "data" / "0.1.0.tar.gz"
NEEDS_DATA = [
    ("reset-password", "ann@example.com"),
    ("reset-second-factor", "ann@example.com"),
    ("imports", "list"),
    ("imports", "cancel", "imp_1"),
    ("verify",),
    ("backup", "backup"),
    ("restore", "backup"),
]
"""Commands that find no data, or no backup."""


def modes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.lstat().st_mode))
        for path in (folder, *sorted(folder.rglob("*")))
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of somebody else, which is also the current one."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "tool").write_text("#!/bin/sh\n")
    (home / "warehouse").mkdir()
    for path, mode in (
        (home, 0o755),
        (home / "bin", 0o755),
        (home / "bin" / "tool", 0o755),
        (home / "warehouse", 0o755),
    ):
        path.chmod(mode)
    monkeypatch.chdir(home)
    return home


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        (["--data", ""], {}),
        ([], {"PENSTOCK_DATA": ""}),
        (["--data", "data"], {"PENSTOCK_SECRET_KEY_FILE": ""}),
    ],
)
def test_an_empty_path_is_wrong_use_and_touches_nothing(home, flags, settings):
    before = modes(home)
    run = penstock("migrate", *flags, **settings)
    assert (run.returncode, run.stdout) == (2, "")
    [line] = run.stderr.splitlines()
    assert line.startswith(f"penstock: {next(iter(settings), '--data')}: Must not be empty")
    assert modes(home) == before


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize(
    "command", [("serve", "--port", "0"), ("migrate",), ("demo", "--port", "0"), *NEEDS_DATA]
)
def test_the_folder_of_somebody_else_is_refused_and_keeps_its_modes(home, command):
    before = modes(home)
    error = error_of(penstock(*command, "--data", "."))
    assert len(error.splitlines()) == 1, error
    assert modes(home) == before


@pytest.mark.usefixtures("starts_service")
def test_the_refusal_says_the_way_out(home):
    [line] = penstock("migrate", "--data", str(home)).stderr.splitlines()
    assert f"{home} is not empty and not a data folder of Penstock" in line
    assert "choose a new or empty folder with --data or PENSTOCK_DATA" in line
    assert f"touch {home / 'penstock.lock'}" in line


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize("command", NEEDS_DATA)
def test_a_command_that_needs_data_creates_no_folder(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    run = penstock(*command, "--data", "nodata")
    expected = "backup is not a complete backup of Penstock"
    if command[0] != "restore":
        expected = "nodata contains no Penstock data"
    assert (run.returncode, run.stderr) == (1, f"penstock: {expected}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("starts_service")
def test_a_metadata_database_elsewhere_is_not_created_either(tmp_path):
    url = f"sqlite:///{tmp_path}/elsewhere/penstock.sqlite3"
    error = error_of(penstock("reset-password", "a@b.example", PENSTOCK_DATABASE_URL=url))
    assert "contains no Penstock data" in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("starts_service")
def test_a_new_file_system_is_as_good_as_an_empty_folder(tmp_path):
    data = tmp_path / "data"
    (data / "lost+found").mkdir(parents=True)
    (data / "lost+found").chmod(0o755)
    output_of(penstock("migrate", "--data", str(data)))
    after = modes(data)
    assert (after["."], after["lost+found"]) == ("0o700", "0o755")


def test_files_of_others_and_targets_of_links_keep_their_modes(home, tmp_path):
    """Another version has already made its data folder among them."""
    (home / "penstock.sqlite3").touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (home / "imports").mkdir()
    (home / "imports" / "upload").touch()
    (home / "imports" / "link").symlink_to(outside / "file")
    (home / "imports" / "folder").symlink_to(outside)
    (home / "clicks").symlink_to(outside)
    for path in (home / "penstock.sqlite3", home / "imports" / "upload", outside / "file"):
        path.chmod(0o644)
    for path in (home / "imports", outside):
        path.chmod(0o755)
    others, before = modes(outside), modes(home)
    with data_folder_lock(home):
        pass
    after = modes(home)
    assert modes(outside) == others
    assert {name: mode for name, mode in after.items() if before.get(name) != mode} == {
        "penstock.lock": "0o600",
        "penstock.sqlite3": "0o600",
        "imports": "0o700",
        "imports/upload": "0o600",
        "warehouse": "0o700",
    }


def test_data_of_0_1_0_is_recognised(tmp_path):
    """Also without its lock, which a copy may lack, and without SQLite, as with PostgreSQL."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    data = tmp_path / "data"
    require_data_folder(data)
    with data_folder_lock(data):
        assert set(modes(data).values()) <= {"0o700", "0o600", "0o777"}  # the last are links
    (data / "penstock.lock").unlink()
    (data / "penstock.sqlite3").unlink()
    require_data_folder(data)
    shutil.rmtree(data / "warehouse")
    (data / "penstock.lock").touch()  # as with PostgreSQL and ClickHouse
    require_data_folder(data)
