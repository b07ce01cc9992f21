"""A copy of the embedded engine's folder as it is at one moment, made of hard links.

The engine never changes a part once it is written, so `ALTER TABLE ... FREEZE` links the files of
all parts in milliseconds. The rest of a table's folder is small and is copied: its format, and the
log of the tokens by which the engine recognises a repeated insert. Files of mutations are left out:
deletions are safe to repeat.
"""

import shutil
from pathlib import Path

from penstock.base.patterns import Pattern
from penstock.warehouse.client import Warehouse
from penstock.warehouse.queries import load

_TABLE_FOLDER = Pattern(r"[0-9a-f]{3}/[0-9a-f-]{36}")


def freeze(warehouse: Warehouse, copy: Path) -> None:
    """Write a copy of the engine's folder to `copy`, a new folder on the same file system.

    Nothing may be inserted during it. The copy can be opened like the original.
    """
    folder = warehouse.folder
    assert folder is not None
    # A name without characters that the engine would escape.
    shadow = folder / "shadow" / f"penstock_{copy.parent.name}"
    try:
        for table, _ in warehouse.query(load("penstock.warehouse", "stored_tables"))[1]:
            # The engine binds no names here. The tables' are those of our migrations.
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
    """Rows of a table in a frozen copy, from the parts' own counts. folder: the copy's."""
    parts = (folder / "data" / "default" / table).glob("*/count.txt")
    return sum(int(count.read_text()) for count in parts)


def left_over_folders(folder: Path) -> list[Path]:
    """What a killed process left of its frozen copies. folder: the engine's."""
    return list((folder / "shadow").glob("penstock_*"))


def _copy_small_files(table_folder: Path, copy: Path) -> None:
    """Everything of a table but its parts and unfinished work."""
    copy.mkdir(parents=True)
    if (table_folder / "detached").is_dir():  # not in the folder of the database itself
        (copy / "detached").mkdir()
    for path in table_folder.iterdir():
        if path.name == "deduplication_logs":
            shutil.copytree(path, copy / path.name)
        elif path.is_file() and not path.name.startswith(("mutation_", "tmp_")):
            shutil.copyfile(path, copy / path.name)


def is_part(folder: Path) -> bool:
    """Whether a folder of the engine is a part, which never changes."""
    return (folder / "checksums.txt").is_file()
