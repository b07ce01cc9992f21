"""Managed links in a file of definitions: their fields, their faults, and how they are saved."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

import httpx

from penstock.base.spreadsheets import encode_cell
from penstock.cli.client import Record, listed_records, record_of
from penstock.cli.definitions_yaml import Entry

PATH = "/api/mobile/deferred-links"
_APP = "app"
_NO_VALUE: dict[str, Any] = {
    "name": "",
    "destinationPath": "",
    "fallbackUrl": None,
    "utmSource": None,
    "utmMedium": None,
    "utmCampaign": None,
    "expiresAt": None,
    "expiredUrl": None,
    "tags": [],
    "passQuery": False,
    "isActive": True,
    "isArchived": False,
}
"""Fields that can be changed, and their values in a link whose definition leaves them out."""
UNREVISED = ("tags", "passQuery", "isActive", "isArchived")
"""Fields whose change does not add a revision."""
CHANGED_AT = "updatedAt"
"""Read-only field that every change of a link changes too. The service refuses an old value."""
CHANGED = "The link was changed elsewhere in the meantime. Run the command again."
_FIELDS = ("slug", _APP, *_NO_VALUE)


def links_with_apps(
    client: httpx.Client, links: Sequence[Entry]
) -> tuple[dict[str, Record], list[str]]:
    """Return the values of each link as the API names them, by slug, and the faults of the others.

    An app is given by its name or its ID.
    """
    values: dict[str, Record] = {}
    faults: list[str] = []
    apps = list(listed_records(client, "/api/settings/websites")) if links else []
    for link in links:
        wrong = [link.fault(*fault) for fault in _faults(link.body, apps)]
        faults += wrong
        if not wrong:
            [website_id] = _ids(link.body[_APP], apps)
            own = {name: value for name, value in link.body.items() if name in _NO_VALUE}
            tags = sorted({tag.strip().lower() for tag in own.get("tags", ())})
            values[link.key] = {
                **_NO_VALUE, **own, "tags": tags, "slug": link.key, "websiteId": website_id
            }  # fmt: skip
    return values, faults


def _faults(body: Record, apps: Iterable[Record]) -> Iterator[tuple[str, str]]:
    """Yield each faulty field and what is wrong with it. The service checks everything else."""
    for name, value in body.items():
        if name not in _FIELDS:
            yield name, f"There is no such field. A link has {', '.join(_FIELDS)}."
        elif name == "tags":
            if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
                yield name, "Must be a list of texts."
            elif any("," in tag for tag in value):
                yield name, "A tag must not contain a comma."
        elif isinstance(_NO_VALUE.get(name), bool):
            if not isinstance(value, bool):
                yield name, "Must be true or false."
        elif not isinstance(value, str) and (value is not None or _NO_VALUE.get(name, "") == ""):
            yield name, "Must be a text."
    if isinstance(app := body.get(_APP, ""), str):
        matching = _ids(app, apps)
        if not app:
            yield _APP, "Name the app of the link."
        elif not matching:
            yield _APP, f"The workspace has no app with the name or ID {app}."
        elif len(matching) > 1:
            yield _APP, f"{len(matching)} apps have this name; give the ID of one of them."


def _ids(app: str, apps: Iterable[Record]) -> list[str]:
    return [each["id"] for each in apps if app in (each["id"], each["name"])]


def current_links(client: httpx.Client) -> Iterator[Record]:
    """Yield all links of the workspace. Archived links are a separate list."""
    for path in (PATH, f"{PATH}?state=archived"):
        yield from listed_records(client, path)


def is_same_link(client: httpx.Client, values: Record) -> bool:
    """Whether an existing link already has these values, so that nothing would change."""
    return bool(_try(client, [values])["unchanged"])


def service_faults(
    client: httpx.Client, links: Sequence[Entry], values: Mapping[str, Record]
) -> list[str]:
    """Return the faults that the service finds in links."""
    checked = [link for link in links if link.key in values]
    if not checked:
        return []
    upload = _try(client, [values[link.key] for link in checked])
    return [
        checked[fault["row"] - 2].fault(
            _APP if fault["column"] == "websiteId" else fault["column"], fault["message"]
        )
        for fault in upload["faults"]
    ]


def _try(client: httpx.Client, links: Sequence[Record]) -> Record:
    """Ask the service what an upload of these links would do."""
    file = StringIO()
    writer = csv.writer(file)
    writer.writerow(links[0])
    for link in links:
        writer.writerow(encode_cell(_cell(value)) for value in link.values())
    return record_of(
        client.post(
            f"{PATH}/csv",
            params={"dryRun": "true"},
            content=file.getvalue().encode(),
            headers={"Content-Type": "text/csv"},
        )
    )


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list():
            return ",".join(value)
        case _:
            return str(value)


def save_link(client: httpx.Client, values: Record, current: Record | None) -> httpx.Response:
    """Create a link, or change it unless it was changed since it was read."""
    if current is not None:
        changes = {name: values[name] for name in _NO_VALUE}
        return client.patch(PATH, json=changes | _unchanged(current))
    return client.post(PATH, json=values)


def retire_link(client: httpx.Client, current: Record) -> httpx.Response:
    """Disable and archive a link unless it was changed since it was read. Links cannot be deleted:
    their slugs are never free again.
    """
    states = {"isActive": False, "isArchived": True}
    return client.patch(PATH, json=states | _unchanged(current))


def _unchanged(link: Record) -> Record:
    """Return the fields that make the service reject the change if the link was changed in the
    meantime.
    """
    return {name: link[name] for name in ("id", "revision", CHANGED_AT)}
