"""Names of attempts in lists and URLs.

The name is the text of the attempt ID. If the ID has several keys or built-in ones, it is a JSON
array with an element for each key: the text of a property, the ID of `$visitor`, and for
`$session` an array of the website, the visitor and the session.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import DecodeError, json

from penstock.funnels.definitions.builtins import SESSION_KEY, VISITOR_KEY
from penstock.funnels.definitions.model import Definition


@dataclass(frozen=True, slots=True)
class AttemptName:
    """An attempt that a client named.

    texts: text of each property. visitor_ids: IDs that must all belong to the attempt's visitor.
    session: website and session ID.
    """

    texts: Mapping[str, str]
    visitor_ids: tuple[str, ...] = ()
    session: tuple[str, str] | None = None


def attempt_name(
    definition: Definition, row: Mapping[str, Any], visitors: Mapping[int, str]
) -> str:
    """Return the name of an attempt.

    row: a row of `unit_names`. visitors: IDs of canonical visitors by key.
    """
    texts = iter(row["texts"])
    visitor = visitors.get(row["visitor"], "")
    if not definition.has_composite_attempts:
        return str(next(texts))
    parts = {VISITOR_KEY: visitor, SESSION_KEY: [row["website_id"], visitor, row["session_id"]]}
    name = [parts[key] if key in parts else next(texts) for key in definition.attempt_keys]
    return json.encode(name).decode()


def read_attempt_name(definition: Definition, name: str) -> AttemptName | None:
    """Read the name of an attempt. Returns None if it cannot be a name."""
    keys = definition.attempt_keys
    if not definition.has_composite_attempts:
        return AttemptName({keys[0]: name})
    try:
        parts = json.decode(name)
    except (DecodeError, RecursionError):
        return None
    if not isinstance(parts, list) or len(parts) != len(keys):
        return None
    texts, visitor_ids, session = {}, [], None
    for key, part in zip(keys, parts, strict=True):
        if key == SESSION_KEY:
            if not (isinstance(part, list) and len(part) == 3 and all(map(_is_text, part))):
                return None
            session = (part[0], part[2])
            visitor_ids.append(part[1])
        elif not _is_text(part):
            return None
        elif key == VISITOR_KEY:
            visitor_ids.append(part)
        else:
            texts[key] = part
    return AttemptName(texts, tuple(visitor_ids), session)


def _is_text(part: Any) -> bool:
    return isinstance(part, str) and "\x00" not in part
