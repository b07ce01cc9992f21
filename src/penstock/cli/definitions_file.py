"""`penstock plan` and `penstock apply`: goals and funnels as a YAML file, over HTTP.

A file next to the YAML file records the revision of each goal and funnel at its last `apply`. A
record that has another revision was changed elsewhere, and is overwritten only with `--force`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
import yaml
from httpx import codes

from penstock.base.durable_files import write_durably
from penstock.cli.client import (
    LOCAL,
    ApiKey,
    Record,
    Url,
    listed_records,
    record_of,
    service_client,
)
from penstock.cli.options import FAILED, WRONG_USE, fail
from penstock.cli.progress import every_few_seconds, still_running

_KINDS = ("goals", "funnels")
"""Lists in the file, in the order in which they are applied: funnels use goals."""
_NOT_COMPARED = {"id", "name", "folder", "revision", "createdAt", "updatedAt"}
_MAX_BYTES = 1_000_000

File = Annotated[
    Path,
    typer.Argument(
        help="YAML file with the lists goals and funnels.",
        exists=True,
        dir_okay=False,
        readable=True,
    ),
]
State = dict[str, dict[str, dict[str, Any]]]
"""For each kind and name, the ID, the revision and the hash of the definition as applied."""


class Change(StrEnum):
    """A change to a goal or funnel. The value is its sign in the output."""

    CREATE = "+"
    UPDATE = "~"
    KEEP = "="
    DRIFT = "!"


@dataclass(frozen=True)
class Item:
    """A goal or funnel of the file.

    body: its definition in the file. current: the record of the service, if it exists. reason: why
    it is not overwritten.
    """

    kind: str
    name: str
    body: Record
    current: Record | None
    change: Change
    reason: str = ""

    @property
    def label(self) -> str:
        return f"{self.kind.removesuffix('s')} {self.name}"


def plan(file: File, url: Url = LOCAL, api_key: ApiKey = "") -> None:
    """Show what `penstock apply` would change. Changes nothing.

    Exits with 1 if a goal or funnel was changed elsewhere, or is not valid.
    """
    wanted, state = _read(file), _read_state(file)
    with (
        service_client(url, api_key, owns="funnels") as client,
        every_few_seconds(still_running("Comparing")),
    ):
        items = list(_compare(client, wanted, state))
        _validate(client, items)
    _print(items, state, wanted)
    if any(item.change is Change.DRIFT for item in items):
        raise typer.Exit(FAILED)


def apply(
    file: File,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite goals and funnels that changed elsewhere.")
    ] = False,
    url: Url = LOCAL,
    api_key: ApiKey = "",
) -> None:
    """Create and change goals and funnels as in the file. Deletes nothing; safe to repeat.

    Exits with 1 if a goal or funnel was changed elsewhere and stays as it is.
    """
    wanted, state = _read(file), _read_state(file)
    with (
        service_client(url, api_key, owns="funnels") as client,
        every_few_seconds(still_running("Applying")),
    ):
        items = list(_compare(client, wanted, state))
        _validate(client, items)
        for item in items:
            if item.change is not Change.DRIFT or force:
                _apply(client, item, state)
                _write_state(file, state)
    _print(items, state, wanted)
    if not force and any(item.change is Change.DRIFT for item in items):
        raise typer.Exit(FAILED)


def _read(file: Path) -> dict[str, list[Record]]:
    """Read the lists of the file. Ends the command if the file is not valid."""
    if file.stat().st_size > _MAX_BYTES:
        fail(f"{file} has more than {_MAX_BYTES:,} bytes", WRONG_USE)
    try:
        content = yaml.safe_load(file.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        fail(f"{file} is not valid YAML: {' '.join(str(error).split())}", WRONG_USE)
    if not isinstance(content, dict) or not set(content) <= set(_KINDS):
        fail(f"{file} must have the lists goals and funnels, and nothing else", WRONG_USE)
    wanted: dict[str, list[Record]] = {}
    for kind in _KINDS:
        entries = content.get(kind) or []
        if not isinstance(entries, list):
            fail(f"{file}: {kind} must be a list", WRONG_USE)
        names = [entry.get("name") if isinstance(entry, dict) else None for entry in entries]
        if not all(isinstance(name, str) and name for name in names):
            fail(f"{file}: each entry of {kind} needs a name", WRONG_USE)
        if repeated := next((name for name in names if names.count(name) > 1), None):
            fail(f"{file}: {kind} has the name {repeated} twice", WRONG_USE)
        wanted[kind] = entries
    return wanted


def _compare(
    client: httpx.Client, wanted: Mapping[str, list[Record]], state: State
) -> Iterator[Item]:
    for kind in _KINDS:
        current: dict[str, list[Record]] = {}
        for record in listed_records(client, f"/api/{kind}"):
            current.setdefault(record["name"], []).append(record)
        for body in wanted[kind]:
            yield _item(client, kind, body, current.get(body["name"], []), state)


def _item(
    client: httpx.Client, kind: str, body: Record, current: list[Record], state: State
) -> Item:
    name = body["name"]
    applied = state[kind].get(name)
    if len(current) > 1:
        record = next((each for each in current if applied and each["id"] == applied["id"]), None)
        if record is None:
            reason = f"the workspace has {len(current)} {kind} with this name; rename the others"
            return Item(kind, name, body, None, Change.DRIFT, reason)
        current = [record]
    if not current:
        return Item(kind, name, body, None, Change.CREATE)
    [record] = current
    if applied is None or applied["id"] != record["id"]:
        if _is_same(client, kind, body, record):
            return Item(kind, name, body, record, Change.KEEP)
        reason = f"it exists with another definition, at revision {record['revision']}"
        return Item(kind, name, body, record, Change.DRIFT, reason)
    if applied["revision"] != record["revision"]:
        reason = (
            f"it was changed elsewhere: revision {record['revision']}, "
            f"last applied {applied['revision']}"
        )
        return Item(kind, name, body, record, Change.DRIFT, reason)
    is_same = applied["sha256"] == _hash(body)
    return Item(kind, name, body, record, Change.KEEP if is_same else Change.UPDATE)


def _is_same(client: httpx.Client, kind: str, body: Record, record: Record) -> bool:
    """Whether a definition in the file means the same as a record that was never applied."""
    if kind == "goals":
        match = body.get("match")
        return isinstance(match, dict) and {"filters": [], **match} == record["match"]
    answer = client.post("/api/funnels/validate", json=body)
    if not answer.is_success:
        return False
    definition = {name: value for name, value in answer.json().items() if name not in _NOT_COMPARED}
    return definition == {
        name: value for name, value in record.items() if name not in _NOT_COMPARED
    }


def _validate(client: httpx.Client, items: list[Item]) -> None:
    """End the command with the faults of funnels that are not valid.

    Funnels that use a goal that does not exist yet are validated when they are applied.
    """
    new_goals = {
        item.name for item in items if item.kind == "goals" and item.change is Change.CREATE
    }
    for item in items:
        if item.kind != "funnels" or item.change is Change.KEEP or _goals_of(item.body) & new_goals:
            continue
        answer = client.post("/api/funnels/validate", json=item.body)
        if not answer.is_success:
            _fail(item, answer)


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
    path = f"/api/{item.kind}"
    if item.current is None:
        answer = client.post(path, json=item.body)
    elif item.change is Change.KEEP:
        state[item.kind][item.name] = _applied(item, item.current)
        return
    else:
        body = {**item.body, "revision": item.current["revision"]}
        method = "PATCH" if item.kind == "goals" else "PUT"
        answer = client.request(method, f"{path}/{item.current['id']}", json=body)
    if not answer.is_success:
        _fail(item, answer)
    state[item.kind][item.name] = _applied(item, record_of(answer))


def _applied(item: Item, record: Record) -> dict[str, Any]:
    return {"id": record["id"], "revision": record["revision"], "sha256": _hash(item.body)}


def _fail(item: Item, answer: httpx.Response) -> None:
    """End the command with the faults that the service found in a definition."""
    if answer.status_code != codes.UNPROCESSABLE_ENTITY:
        record_of(answer)
    problem = answer.json()
    faults = [f"{fault['field']}: {fault['message']}" for fault in problem.get("errors", ())]
    fail(f"{item.label}: {'; '.join(faults) or problem.get('detail')}")


def _print(items: list[Item], state: State, wanted: Mapping[str, list[Record]]) -> None:
    for item in items:
        reason = f": {item.reason}" if item.reason else ""
        print(f"{item.change} {item.label}{reason}")
    for kind in _KINDS:
        names = {body["name"] for body in wanted[kind]}
        for name in sorted(state[kind].keys() - names):
            print(f"? {kind.removesuffix('s')} {name}: no longer in the file; it is not deleted")
    changes = [item.change for item in items]
    print(
        f"{changes.count(Change.CREATE)} to create, {changes.count(Change.UPDATE)} to change, "
        f"{changes.count(Change.KEEP)} unchanged, {changes.count(Change.DRIFT)} changed elsewhere."
    )


def _hash(body: Record) -> str:
    return sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def _state_path(file: Path) -> Path:
    return file.with_name(f"{file.name}.applied.json")


def _read_state(file: Path) -> State:
    path = _state_path(file)
    try:
        content = json.loads(path.read_text("utf-8"))
        return {kind: dict(content[kind]) for kind in _KINDS}
    except FileNotFoundError:
        return {kind: {} for kind in _KINDS}
    except (ValueError, LookupError, TypeError):
        fail(f"{path} is damaged; delete it, and the next apply compares every definition")


def _write_state(file: Path, state: State) -> None:
    path = _state_path(file)
    part = path.with_name(path.name + ".part")
    write_durably(part, (json.dumps(state, indent=2, sort_keys=True) + "\n").encode())
    part.rename(path)
