"""Sends the calls in a file with an unmodified Python client of Segment or RudderStack.

Arguments: client, URL, write key, file. Each line of the file is a call.
"""

import json
import sys
from datetime import datetime
from typing import Any


def client_of(name: str, url: str, write_key: str) -> Any:
    options = {"host": url, "upload_size": 10, "upload_interval": 0.1, "on_error": fail}
    if name == "segment":
        from segment.analytics import Client

        return Client(write_key, gzip=True, **options)
    from rudderstack.analytics.client import Client as RudderClient

    return RudderClient(write_key, **options)


def fail(error: Exception, _: Any) -> None:
    print(f"not delivered: {error}", file=sys.stderr)


def send(client: Any, call: dict[str, Any]) -> None:
    ids = {"user_id": call.get("userId"), "anonymous_id": call.get("anonymousId")}
    options = {"timestamp": datetime.fromisoformat(call["timestamp"])}
    properties = {"properties": call.get("properties")}
    match call["type"]:
        case "track":
            client.track(**ids, event=call["event"], **properties, **options)
        case "page":
            client.page(**ids, name=call["name"], **properties, **options)
        case "screen":
            client.screen(**ids, name=call["name"], **properties, **options)
        case "identify":
            client.identify(**ids, traits=call["traits"], **options)
        case "alias":
            client.alias(call["previousId"], call["userId"], **options)
        case "group":
            client.group(**ids, group_id=call["groupId"], **options)


def main() -> None:
    name, url, write_key, file = sys.argv[1:]
    client = client_of(name, url, write_key)
    with open(file, encoding="utf-8") as lines:  # noqa: PTH123
        for line in lines:
            send(client, json.loads(line))
    client.flush()
    client.join()


main()
