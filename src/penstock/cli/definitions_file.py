"""`penstock plan` and `penstock apply`: definitions as a YAML file, over HTTP.

The file has segments, goals, funnels, links and the filters of internal traffic. A file next to it
records the revision of each at its last `apply`. A record that has another revision was changed
elsewhere, and is overwritten only with `--force`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from httpx import codes

from penstock.base.durable_files import write_durably
from penstock.base.wording import listed
from penstock.cli import link_definitions as links
from penstock.cli.client import (
    LOCAL,
    ApiKey,
    Record,
    Url,
    listed_records,
    problem_of,
    record_of,
    service_client,
)
from penstock.cli.definitions_yaml import (
    INTERNAL_TRAFFIC,
    KEYS,
    KINDS,
    Definitions,
    Entry,
    label_of,
    read_definitions,
)
from penstock.cli.options import FAILED, fail, warn
from penstock.cli.progress import every_few_seconds, still_running

_SETTING = "/api/settings/internal-traffic"
_NOT_COMPARED = {"id", "name", "folder", "revision", "createdAt", "updatedAt"}
_CHECK_STEP = {"type": "Event", "value": "-"}
"""A step that is always valid, for funnels that only check the filters in another step."""

File = Annotated[
    Path,
    typer.Argument(
        help=f"YAML file with the lists {listed(KINDS)}.",
        exists=True,
        dir_okay=False,
        readable=True,
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Overwrite or delete even what was changed elsewhere.")
]
Delete = Annotated[
    bool,
    typer.Option(
        "--delete",
        help="Delete what an earlier apply created and the file no longer has. Links are disabled "
        "and archived.",
    ),
]
State = dict[str, dict[str, dict[str, Any]]]
"""For each kind and key, the ID, the revision and the hash of the definition as applied, and
whether an apply created it.
"""


class Change(StrEnum):
    """A change to a definition. The value is its sign in the output."""

    CREATE = "+"
    UPDATE = "~"
    KEEP = "="
    DELETE = "-"
    DRIFT = "!"


@dataclass(frozen=True)
class Item:
    """A definition to create, change, keep or delete.

    entry: its lines in the file. body: the values of the API. current: the record of the service,
    if it exists. reason: why it is not overwritten. is_gone: whether the file no longer has it.
    """

    entry: Entry
    body: Record
    current: Record | None
    change: Change
    reason: str = ""
    is_gone: bool = False

    def is_refused(self, *, force: bool) -> bool:
        """Whether an apply leaves the definition as it is.

        Nothing can be forced if it is not known which of several records is meant.
        """
        is_known = self.current is not None or self.is_gone
        return self.change is Change.DRIFT and not (force and is_known)


def plan(file: File, delete: Delete = False, url: Url = LOCAL, api_key: ApiKey = "") -> None:
    """Show what `penstock apply` would change. Changes nothing.

    Exits with 1 if a definition was changed elsewhere, or is not valid.
    """
    definitions, state = read_definitions(file), _read_state(file)
    with (
        service_client(url, api_key, owns="funnels") as client,
        every_few_seconds(still_running("Comparing")),
    ):
        items = _items(client, definitions, state, deletes=delete)
    _print(items, state, definitions.entries, deletes=delete)
    if any(item.change is Change.DRIFT for item in items):
        raise typer.Exit(FAILED)


def apply(
    file: File,
    force: Force = False,
    delete: Delete = False,
    url: Url = LOCAL,
    api_key: ApiKey = "",
) -> None:
    """Create and change definitions as in the file. Deletes only with --delete; safe to repeat.

    Exits with 1 if a definition was changed elsewhere and stays as it is.
    """
    definitions, state = read_definitions(file), _read_state(file)
    with (
        service_client(url, api_key, owns="funnels") as client,
        every_few_seconds(still_running("Applying")),
    ):
        items = _items(client, definitions, state, deletes=delete)
        _write_state(file, state)  # A change that could not be recorded must not begin.
        for item in items:
            if not item.is_refused(force=force):
                _apply(client, item, state)
                _write_state(file, state)
    _print(items, state, definitions.entries, deletes=delete)
    for kind in KINDS:  # Each of these is mentioned once.
        for key, is_created in list(_gone(kind, definitions.entries, state)):
            if not is_created:
                del state[kind][key]
    _write_state(file, state)
    if any(item.is_refused(force=force) for item in items):
        raise typer.Exit(FAILED)


def _items(
    client: httpx.Client, definitions: Definitions, state: State, *, deletes: bool
) -> list[Item]:
    """Compare the file with the service. Ends the command with all faults of the file."""
    wanted = definitions.entries
    values, faults = links.links_with_apps(client, wanted["links"])
    if faults:
        _fail(faults)
    current = {kind: list(_current(client, kind, wanted, state)) for kind in KINDS}
    items = [
        _item(client, entry, values.get(entry.key, entry.body), current[entry.kind], state)
        for kind in KINDS
        for entry in wanted[kind]
    ]
    if faults := list(_faults(client, items, values)):
        _fail(faults)
    if deletes:
        for kind in reversed(KINDS):
            for key, is_created in _gone(kind, wanted, state):
                if is_created:
                    items.append(_removed(definitions.gone(kind, key), current[kind], state))
    return items


def _current(
    client: httpx.Client, kind: str, wanted: Mapping[str, Sequence[Entry]], state: State
) -> Iterator[Record]:
    """Yield the records of the service, if the file or its last apply has any of the kind."""
    if not wanted[kind] and not state[kind]:
        return
    if kind == INTERNAL_TRAFFIC:
        yield {"id": INTERNAL_TRAFFIC, **record_of(client.get(_SETTING))}
    elif kind == "links":
        yield from links.current_links(client)
    else:
        yield from listed_records(client, f"/api/{kind}")


def _item(
    client: httpx.Client, entry: Entry, body: Record, records: list[Record], state: State
) -> Item:
    kind, key = entry.kind, entry.key
    applied = state[kind].get(key)

    def item(record: Record | None, change: Change, reason: str = "") -> Item:
        return Item(entry, body, record, change, reason)

    name = KEYS.get(kind)
    matching = [each for each in records if name is None or each[name] == key]
    if len(matching) > 1:
        same = [each for each in matching if applied and each["id"] == applied["id"]]
        if not same:
            reason = f"the workspace has {len(matching)} {kind} with this name; rename the others"
            return item(None, Change.DRIFT, reason)
        matching = same
    if not matching:
        return item(None, Change.CREATE)
    [record] = matching
    if applied is None or applied["id"] != record["id"]:
        if kind == INTERNAL_TRAFFIC and not record["filters"]:
            return item(record, Change.CREATE)
        if _is_same(client, kind, body, record):
            return item(record, Change.KEEP)
        reason = f"it exists with another definition, at revision {record['revision']}"
        return item(record, Change.DRIFT, reason)
    if reason := _change_elsewhere(applied, record):
        return item(record, Change.DRIFT, reason)
    return item(record, Change.KEEP if applied["sha256"] == _hash(entry.body) else Change.UPDATE)


def _gone(
    kind: str, wanted: Mapping[str, Sequence[Entry]], state: State
) -> Iterator[tuple[str, bool]]:
    """Yield each applied definition that the file no longer has, and whether apply created it."""
    for key in sorted(state[kind].keys() - {entry.key for entry in wanted[kind]}):
        yield key, state[kind][key].get("created", False)


def _removed(entry: Entry, records: list[Record], state: State) -> Item:
    """Return the item of a definition that left the file."""
    applied = state[entry.kind][entry.key]
    record = next((each for each in records if each["id"] == applied["id"]), None)
    reason = "" if record is None else _change_elsewhere(applied, record)
    change = Change.DRIFT if reason else Change.DELETE
    return Item(entry, {}, record, change, reason, is_gone=True)


def _change_elsewhere(applied: Mapping[str, Any], record: Record) -> str:
    """Describe what has changed in a record since it was applied; empty if nothing has."""
    if applied["revision"] != record["revision"]:
        return (
            f"it was changed elsewhere: revision {record['revision']}, "
            f"last applied {applied['revision']}"
        )
    unrevised = applied.get("unrevised", {})
    changed = [
        name for name in links.UNREVISED if name in unrevised and record[name] != unrevised[name]
    ]
    return f"it was changed elsewhere: {listed(changed)}" if changed else ""


def _is_same(client: httpx.Client, kind: str, body: Record, record: Record) -> bool:
    """Whether a definition in the file means the same as a record that was never applied."""
    if kind == "links":
        return links.is_same_link(client, body)
    funnel, *_ = _funnel_to_check(kind, body)
    answer = client.post("/api/funnels/validate", json=funnel)
    if not answer.is_success:
        return False
    if kind == "funnels":
        return _compared(answer.json()) == _compared(record)
    [step, _] = answer.json()["steps"]
    if kind == "goals":
        return bool({name: step[name] for name in record["match"]} == record["match"])
    return bool(step["filters"] == record["filters"])


def _compared(definition: Record) -> Record:
    return {name: value for name, value in definition.items() if name not in _NOT_COMPARED}


def _faults(client: httpx.Client, items: list[Item], values: Mapping[str, Record]) -> Iterator[str]:
    """Yield the faults of all definitions that would be created or changed.

    Funnels that use a goal that does not exist yet are checked when they are applied.
    """
    changed = [item for item in items if item.change is not Change.KEEP]
    new_goals = {
        item.entry.key
        for item in changed
        if item.entry.kind == "goals" and item.change is Change.CREATE
    }
    for item in changed:
        if item.entry.kind == "links" or _goals_of(item.body) & new_goals:
            continue
        body, prefix, field = _funnel_to_check(item.entry.kind, item.body)
        answer = client.post("/api/funnels/validate", json=body)
        if not answer.is_success:
            yield from _service_faults(item.entry, answer, prefix, field)
    chosen = [item.entry for item in changed if item.entry.kind == "links"]
    yield from links.service_faults(client, chosen, values)


def _funnel_to_check(kind: str, body: Record) -> tuple[Any, str, str]:
    """Return a funnel with the faults of a definition.

    Also returns the prefix of fields there, and the name that replaces it in the definition. Other
    lists have no route that only checks, but their matches and filters have the rules of a step.
    """
    match kind:
        case "goals":
            step = body.get("match")
            return {"name": body["name"], "steps": [step, _CHECK_STEP]}, "steps[0]", "match"
        case "segments" | "internalTraffic":
            step = {**_CHECK_STEP, "filters": body.get("filters")}
            name = body.get("name", kind)
            return {"name": name, "steps": [step, _CHECK_STEP]}, "steps[0].filters", "filters"
        case _:
            return body, "", ""


def _service_faults(
    entry: Entry, answer: httpx.Response, prefix: str = "", field: str = ""
) -> Iterator[str]:
    """Yield the faults in an error response. Ends the command if it is not about the definition.

    prefix: start of a faulty field that `field` replaces.
    """
    if answer.status_code not in (codes.UNPROCESSABLE_ENTITY, codes.CONFLICT):
        record_of(answer)
    problem = problem_of(answer)
    if not problem:
        record_of(answer)
    faults = problem.get("errors") or [{"field": "", "message": problem.get("detail")}]
    for fault in faults:
        name = fault["field"]
        if entry.kind == "links" and name == links.CHANGED_AT:
            name, fault = "", {"message": links.CHANGED}
        if prefix and name.startswith(prefix):
            name = f"{field}{name.removeprefix(prefix)}"
        if entry.kind == INTERNAL_TRAFFIC:
            name = name.replace("filters", INTERNAL_TRAFFIC, 1)
        yield entry.fault(name, fault["message"])


def _goals_of(body: Any) -> set[str]:
    """Return the names of all goals in the rows of a funnel."""
    rows = body.get("steps")
    goals = set()
    for row in rows if isinstance(rows, list) else []:
        options = row.get("or") if isinstance(row, dict) else None
        for match in (row, *(options if isinstance(options, list) else [])):
            if isinstance(match, dict) and match.get("type") == "Goal":
                goals.add(str(match.get("value")))
    return goals


def _apply(client: httpx.Client, item: Item, state: State) -> None:
    if item.is_gone:
        if item.current is not None and not (answer := _delete(client, item)).is_success:
            _fail(list(_service_faults(item.entry, answer)))
        del state[item.entry.kind][item.entry.key]
        return
    record = item.current
    if record is None or item.change is not Change.KEEP:
        answer = _save(client, item)
        if not answer.is_success:
            _fail(list(_service_faults(item.entry, answer)))
        record = {"id": item.entry.kind, **record_of(answer)}
    earlier = state[item.entry.kind].get(item.entry.key, {})
    state[item.entry.kind][item.entry.key] = _applied(item, record, earlier)


def _save(client: httpx.Client, item: Item) -> httpx.Response:
    if item.entry.kind == INTERNAL_TRAFFIC:
        revision = {} if item.current is None else {"revision": item.current["revision"]}
        return client.put(_SETTING, json={**item.body, **revision})
    if item.entry.kind == "links":
        return links.save_link(client, item.body, item.current)
    path = f"/api/{item.entry.kind}"
    if item.current is None:
        return client.post(path, json=item.body)
    body = {**item.body, "revision": item.current["revision"]}
    method = "PUT" if item.entry.kind == "funnels" else "PATCH"
    return client.request(method, f"{path}/{item.current['id']}", json=body)


def _delete(client: httpx.Client, item: Item) -> httpx.Response:
    assert item.current is not None
    if item.entry.kind == INTERNAL_TRAFFIC:
        body = {"filters": [], "revision": item.current["revision"]}
        return client.put(_SETTING, json=body)
    if item.entry.kind == "links":
        return links.retire_link(client, item.current)
    path = f"/api/{item.entry.kind}/{item.current['id']}"
    return client.delete(path, params={"revision": item.current["revision"]})


def _applied(item: Item, record: Record, earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a definition. earlier: its state after the last apply, if any."""
    is_same = earlier.get("id") == record["id"]
    applied = {
        "created": item.current is None
        or item.change is Change.CREATE
        or (is_same and earlier.get("created", False)),
        "id": record["id"],
        "revision": record["revision"],
        "sha256": _hash(item.entry.body),
    }
    if item.entry.kind == "links":
        applied["unrevised"] = {name: record[name] for name in links.UNREVISED}
    return applied


def _fail(faults: list[str]) -> None:
    """End the command with a line for each fault."""
    *others, last = faults
    for fault in others:
        warn(fault)
    fail(last)


def _print(
    items: list[Item], state: State, wanted: Mapping[str, Sequence[Entry]], *, deletes: bool
) -> None:
    for item in items:
        reason = f": {item.reason}" if item.reason else ""
        print(f"{item.change} {item.entry.label}{reason}")
    gone = 0
    for kind in KINDS:
        for key, is_created in _gone(kind, wanted, state):
            label = f"? {label_of(kind, key)}: no longer in the file; "
            if not is_created:
                print(f"{label}it is not deleted, because apply did not create it")
            elif not deletes:
                gone += 1
                print(f"{label}it is not deleted")
    if gone:
        print("Run the command with --delete to delete what is no longer in the file.")
    changes = [item.change for item in items]
    deleted = f"{changes.count(Change.DELETE)} to delete, " if deletes else ""
    print(
        f"{changes.count(Change.CREATE)} to create, {changes.count(Change.UPDATE)} to change, "
        f"{deleted}{changes.count(Change.KEEP)} unchanged, "
        f"{changes.count(Change.DRIFT)} changed elsewhere."
    )


def _hash(body: Record) -> str:
    return sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _state_path(file: Path) -> Path:
    return file.with_name(f"{file.name}.applied.json")


def _read_state(file: Path) -> State:
    path = _state_path(file)
    try:
        content = json.loads(path.read_text("utf-8"))
        return {kind: dict(content.get(kind, {})) for kind in KINDS}
    except FileNotFoundError:
        return {kind: {} for kind in KINDS}
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}")
    except (ValueError, AttributeError, TypeError):
        fail(f"{path} is damaged; delete it, and the next apply compares every definition")


def _write_state(file: Path, state: State) -> None:
    path = _state_path(file)
    part = path.with_name(path.name + ".part")
    try:
        write_durably(part, (json.dumps(state, indent=2, sort_keys=True) + "\n").encode())
        part.rename(path)
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}; apply records each change there")
