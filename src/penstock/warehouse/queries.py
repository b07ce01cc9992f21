"""Loads named statements. Each room keeps its SQL in its `sql/<name>.sql` files."""

from functools import cache
from importlib.resources import files


@cache
def load(room: str, name: str) -> str:
    """Return a statement's text. room: the package that owns it, such as `penstock.activity`."""
    return files(room).joinpath(f"sql/{name}.sql").read_text("utf-8")
