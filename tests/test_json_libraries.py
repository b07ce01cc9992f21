"""Each JSON library has one job: docs/decisions/0010-json-libraries.md."""

import re
from pathlib import Path

import penstock

SOURCE = Path(penstock.__file__).parent
ROOMS = {
    re.compile(r"^import json$|^from json import"): {"cli", "receipts", "web"},
    re.compile(r"^from pydantic_core import .*\b(from|to)_json\b"): {
        "http",
        "accounts",
        "assistants",
        "funnels",
        "edge",
        "links",
    },
    re.compile(r"^(import|from) msgspec\b"): {
        "activity",
        "alerts",
        "backup",
        "base",
        "catalogue",
        "events",
        "exports",
        "funnels",
        "identity",
        "links",
        "metadb",
        "providers",
        "webhooks",
    },
    re.compile(r"^(import|from) (orjson|ujson|simplejson|rapidjson)\b"): set(),
}


def test_every_room_uses_the_json_library_of_its_job():
    strays = [
        f"{path.relative_to(SOURCE)}:{number}: {line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for pattern, rooms in ROOMS.items()
        if pattern.search(line) and path.relative_to(SOURCE).parts[0] not in rooms
    ]
    assert strays == []
