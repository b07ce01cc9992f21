"""Named statements: a room keeps its SQL in files `sql/<name>.sql` of its own."""

from functools import cache
from importlib.resources import files


@cache
def load(room: str, name: str) -> str:
    """The text of a room's statement. room: its package, such as `penstock.activity`."""
    return files(room).joinpath(f"sql/{name}.sql").read_text("utf-8")
