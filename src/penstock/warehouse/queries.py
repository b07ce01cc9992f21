"""Named statements: a room keeps its SQL in its own files `sql/<name>.sql`."""

from functools import cache
from importlib.resources import files


@cache
def load(room: str, name: str) -> str:
    """The text of a room's statement. room: its package, such as `penstock.activity`."""
    return files(room).joinpath(f"sql/{name}.sql").read_text("utf-8")
