"""Named statements: `sql/<name>.sql` of a room."""

from functools import cache
from importlib.resources import files


@cache
def load(name: str, room: str = "penstock.warehouse") -> str:
    return files(room).joinpath(f"sql/{name}.sql").read_text("utf-8")
