"""Copies the embedded engine's folder as it is at one moment, mostly with hard links.

The engine never changes a part after writing it, so `ALTER TABLE ... FREEZE` links the files of all
parts in milliseconds. The rest of a table's folder is small and is copied: its format, and the log
of tokens by which the engine recognises a repeated insert. Mutation files are left out, because
deletions are safe to repeat.
"""

import shutil
from pathlib import Path

from penstock.base.patterns import Pattern
from penstock.warehouse.client import Warehouse
from penstock.warehouse.queries import load

_TABLE_FOLDER = Pattern(r"[0-9a-f]{3}/[0-9a-f-]{36}")


def freeze(warehouse: Warehouse, copy: Path) -> None:
    """Copy the engine's folder. The copy can be opened like the original.

    The caller must block inserts while this runs.
    copy: a folder that does not exist yet, on the same file system.
    """
    folder = warehouse.folder
    assert folder is not None
    # This name has no characters that the engine would escape.
    shadow = folder / "shadow" / f"penstock_{copy.parent.name}"
    try:
        for table, _ in warehouse.query(load("penstock.warehouse", "stored_tables"))[1]:
            # The engine cannot bind table names here. They come from our migrations.
            warehouse.command(f"ALTER TABLE {table} FREEZE WITH NAME '{shadow.name}'")
        copy.mkdir(parents=True)
        for name in ("metadata", "data"):
            shutil.copytree(folder / name, copy / name, symlinks=True)
        for table_folder in (folder / "store").glob("*/*"):
            relative = table_folder.relative_to(folder)
            if _TABLE_FOLDER.fullmatch(str(relative.relative_to("store"))):
                _copy_small_files(table_folder, copy / relative)
        for part in shadow.glob("store/*/*/*"):
            part.rename(copy / part.relative_to(shadow))
    finally:
        shutil.rmtree(shadow, ignore_errors=True)


def stored_rows(folder: Path, table: str) -> int:
    """Return the number of rows of a table in a frozen copy, according to the counts stored in its
    parts.

    folder: the folder of the copy.
    """
    parts = (folder / "data" / "default" / table).glob("*/count.txt")
    return sum(int(count.read_text()) for count in parts)


def left_over_folders(folder: Path) -> list[Path]:
    """Return folders of frozen copies that a killed process left behind. folder: the engine's
    folder.
    """
    return list((folder / "shadow").glob("penstock_*"))


def _copy_small_files(table_folder: Path, copy: Path) -> None:
    """Copy the files of a table, except its parts and unfinished work."""
    copy.mkdir(parents=True)
    if (table_folder / "detached").is_dir():  # The folder of the database itself has no `detached`.
        (copy / "detached").mkdir()
    for path in table_folder.iterdir():
        if path.name == "deduplication_logs":
            shutil.copytree(path, copy / path.name)
        elif path.is_file() and not path.name.startswith(("mutation_", "tmp_")):
            shutil.copyfile(path, copy / path.name)


def is_part(folder: Path) -> bool:
    """Whether a folder holds a part, which never changes."""
    return (folder / "checksums.txt").is_file()
