"""Handles file trees: hard links to a data folder, copies with checksums, and lists for
manifests.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from penstock.backup.model import BackupFailed, File, Manifest, SymbolicLink
from penstock.base.checksums import sha256_of
from penstock.base.durable_files import sync_folder
from penstock.warehouse.frozen_copy import is_part

_CHUNK_BYTES = 1024 * 1024


class Tree(NamedTuple):
    """Contents of a folder, with paths relative to it."""

    folders: list[str]
    links: list[SymbolicLink]
    files: list[str]


def entries_of(folder: Path) -> set[Path]:
    """Return all entries of a folder except `lost+found`, which file systems create."""
    return {path for path in folder.iterdir() if path.name != "lost+found"}


def read_tree(root: Path) -> Tree:
    """List everything below a folder, without following symbolic links."""
    tree = Tree([], [], [])
    for folder, folder_names, file_names in os.walk(root):
        for name in [*folder_names, *file_names]:
            path = Path(folder) / name
            relative = str(path.relative_to(root))
            if path.is_symlink():
                tree.links.append(SymbolicLink(relative, str(path.readlink())))
            elif path.is_dir():
                tree.folders.append(relative)
            elif path.is_file():
                tree.files.append(relative)
    return tree


def link_new_files(source: Path, target: Path) -> None:
    """Create hard links to all files of a folder and its subfolders that are missing in
    `target`.
    """
    for path in sorted(source.rglob("*")):
        if path.is_file() and not path.name.endswith(".part"):
            link = target / path.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, link)
            except (FileExistsError, FileNotFoundError):
                continue  # already linked, or removed after listing


def copy_tree(
    source: Path, target: Path, base: "Base | None" = None
) -> tuple[Tree, list[File], int]:
    """Copy a folder durably into a new folder.

    Returns its contents, the list of files and the number of bytes shared with `base`. base: an
    earlier backup; unchanged event store parts become hard links to its files.
    """
    tree = read_tree(source)
    _make_folders(tree, target)
    files: list[File] = []
    linked_bytes = 0
    for path in tree.files:
        shared_file = base.shared_file(source, path) if base else None
        if shared_file is not None and _try_link(shared_file.path, target / path):
            file = shared_file.file
            linked_bytes += file.size
        else:
            file = File(path, *_copy(source / path, target / path))
        files.append(file)
    for folder in ["", *tree.folders]:
        sync_folder(target / folder)
    return tree, files, linked_bytes


def copy_listed(manifest: Manifest, source: Path, target: Path) -> None:
    """Copy a backup's files durably. Raises `BackupFailed` if a file differs from the manifest."""
    _make_folders(Tree(manifest.folders, manifest.links, []), target)
    for file in manifest.files:
        try:
            result = _copy(source / file.path, target / file.path)
        except FileNotFoundError:
            raise BackupFailed(f"the backup's file {file.path} is missing") from None
        if result != (file.size, file.sha256):
            raise BackupFailed(f"the backup's file {file.path} is damaged")
    for folder in ["", *manifest.folders]:
        sync_folder(target / folder)


def damaged_files(manifest: Manifest, root: Path) -> Iterator[str]:
    """Yield files of a backup that are missing or differ from the manifest."""
    for file in manifest.files:
        try:
            path = root / file.path
            if path.stat().st_size != file.size or sha256_of(path) != file.sha256:
                yield f"{file.path} is damaged"
        except FileNotFoundError:
            yield f"{file.path} is missing"


class SharedFile(NamedTuple):
    """A file of the base backup, and its entry in the manifest."""

    path: Path
    file: File


class Base:
    """An earlier backup. The next backup shares its unchanged parts instead of copying them."""

    def __init__(self, root: Path, manifest: Manifest) -> None:
        self._root = root
        self._files: Mapping[str, File] = {file.path: file for file in manifest.files}
        self._same_parts: dict[Path, bool] = {}

    def shared_file(self, source: Path, path: str) -> SharedFile | None:
        """Return the base's copy of the file; None if the file does not belong to a part or
        differs.
        """
        file = self._files.get(path)
        part = (source / path).parent
        if file is None or not is_part(part):
            return None
        if part not in self._same_parts:
            # The engine's own checksums cover the content of every file in the part.
            listed = self._files.get(str(Path(path).parent / "checksums.txt"))
            self._same_parts[part] = (
                listed is not None and sha256_of(part / "checksums.txt") == listed.sha256
            )
        same = self._same_parts[part] and (source / path).stat().st_size == file.size
        return SharedFile(self._root / path, file) if same else None


def _make_folders(tree: Tree, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for folder in tree.folders:
        (target / folder).mkdir(parents=True, exist_ok=True)
    for link in tree.links:
        (target / link.path).symlink_to(link.target)


def _try_link(source: Path, target: Path) -> bool:
    """Try to create a hard link. Returns False if the file must be copied, or no longer exists."""
    try:
        os.link(source, target)
    except OSError:
        return False
    return True


def _copy(source: Path, target: Path) -> tuple[int, str]:
    """Copy a file durably. Returns its size and SHA-256."""
    digest, size = sha256(), 0
    with source.open("rb") as file, target.open("wb") as copy:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            copy.write(chunk)
            size += len(chunk)
        copy.flush()
        os.fchmod(copy.fileno(), source.stat().st_mode & 0o777)  # keep secret files private
        os.fsync(copy.fileno())
    return size, digest.hexdigest()


def remove_tree(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
