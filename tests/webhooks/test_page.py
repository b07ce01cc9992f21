"""What docs/webhooks.md shows is accepted, sent and verified."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.answers import body_of
from tests.waiting import eventually
from tests.webhooks.conftest import Shop
from tests.webhooks.receiver import Receiver

pytestmark = pytest.mark.usefixtures("warehouse")
PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text("utf-8")


def block(language: str) -> str:
    [text] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(text)


def test_the_page_shows_what_is_sent(shop: Shop, inbox: Receiver) -> None:
    shop.share("units", "plan")
    body = json.loads(block("sh").partition("-d '")[2].rpartition("'")[0])
    assert body["url"].startswith("https://")
    body |= {"funnelId": shop.funnel_id, "url": inbox.url, "events": ["step_completed"]}
    del body["expiringBeforeSeconds"]
    hook = body_of(shop.tenant.client.post("/api/webhooks", json=body), 201)
    shop.is_watching(hook)
    shop.scene.story("0.2/A 0.4/B", plan="pro")
    eventually(lambda: inbox.messages)
    [documented], [sent] = json.loads(block("json")), inbox.messages

    def shape(value: Any) -> Any:
        return {key: shape(item) for key, item in value.items()} if isinstance(value, dict) else ""

    assert shape(sent) == shape(documented)
    assert (sent["type"], sent["data"]["step"]) == (documented["type"], documented["data"]["step"])
    names: dict[str, Any] = {
        "secret": hook["secret"],
        "body": inbox.bodies[-1],
        "headers": inbox.requests[-1][0],
    }
    exec(block("python"), names)
    assert names["messages"] == inbox.messages
