"""The key file: complete and durable under its name, or not there."""

import os
import stat
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from penstock.metadb.secret_box import SecretBox
from penstock.settings import Settings


@pytest.fixture
def key_settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path)


class Killed(BaseException):
    """Stands for the end of the process: no code of ours handles it."""


@pytest.mark.parametrize("moment", ["generate_key", "fsync", "link"])
def test_a_start_that_was_killed_while_it_made_the_key_can_be_repeated(
    key_settings: Settings, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as killed:
        killed.setattr(Fernet if moment == "generate_key" else os, moment, die)
        killed.setattr(Path, "unlink", die)  # a killed process tidies nothing up
        with pytest.raises(Killed):
            SecretBox.from_settings(key_settings)
    sealed = SecretBox.from_settings(key_settings).seal("secret")
    assert SecretBox.from_settings(key_settings).open(sealed) == "secret"


def test_two_processes_that_make_the_key_at_once_use_the_same(
    key_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate_key = Fernet.generate_key
    others: list[SecretBox] = []

    def generate_later() -> bytes:
        monkeypatch.setattr(Fernet, "generate_key", generate_key)
        others.append(SecretBox.from_settings(key_settings))  # another process, meanwhile
        return generate_key()

    monkeypatch.setattr(Fernet, "generate_key", generate_later)
    box = SecretBox.from_settings(key_settings)
    [other] = others
    assert other.open(box.seal("secret")) == "secret"


def test_the_key_is_durable_before_it_is_used(
    key_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, fsync = tmp_path / "secret.key", os.fsync
    synced: list[tuple[str, bool]] = []

    def record(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append(("folder" if is_folder else "file", key.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    SecretBox.from_settings(key_settings)
    assert synced == [("file", False), ("folder", True)]
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
