"""Names of runs in lists and URLs: the visitor's ID, `@`, and the ID of the run's entry."""

EVENT_ID_START = "evt_"


def run_name(visitor_id: str, entry_id: str) -> str:
    return f"{visitor_id}@{entry_id}"


def read_run_name(name: str) -> tuple[str, str | None]:
    """Return the visitor's ID, which may contain @, and the ID of the entry if the name has one."""
    visitor_id, _, entry_id = name.rpartition("@")
    if visitor_id and entry_id.startswith(EVENT_ID_START):
        return visitor_id, entry_id
    return name, None
