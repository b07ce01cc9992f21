"""Named statements: `sql/<name>.sql` of this room."""

from functools import cache
from importlib.resources import files


@cache
def load(name: str) -> str:
    return files("penstock.warehouse").joinpath(f"sql/{name}.sql").read_text("utf-8")
