"""Sends requests to a running application, and records them as examples for the API reference."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from penstock.app import Services
from tests.conftest import ShiftedClock
from tests.mail_server import MailServer
from tests.tenant import Tenant

Json = dict[str, Any]

MAX_TEXT_CHARS = 1000
"""Files are shown up to this length."""

_PLACEHOLDERS = (
    (r'("qrCode": "data:image/svg\+xml)[^"]+', r"\1;..."),
    (r'("secret": "|secret=)[A-Z2-7]{32}', r"\g<1>JBSWY3DPEHPK3PXP..."),
    (r'("code": ")\d{6}"', r'\g<1>123456"'),
    (r'"[0-9a-z]{4}(?:-[0-9a-z]{4}){3}"', '"3kf9-t0bw-xq52-8zme"'),
    (r'("token": ")[^"]+', r"\1..."),
    (r"\bt=\d+,v1=[0-9a-f]{64}", "t=1795255200,v1=5257a869..."),
    (r'("Authorization": "Basic )[^"]+', r"\1d2ViXy4uLjo="),
    (r'("secret": "whsec_)[^"]+', r"\1..."),
    (r"\b([a-z]{3,5})_[0-9A-Za-z_-]{20,}", r"\1_..."),
    (r"\b[0-9A-F]{16}\b", "..."),  # a fingerprint
    (r"\bpsk_[\w-]{8}(?![\w-])", "psk_Ab3xK9-q"),
    (r"\b(invitation)=[\w-]+", r"\1=..."),
    (r'(/s/)[\w-]{43}"', r'\1..."'),
    (r"\b[0-9a-f]{32}(@|%40)example\.com", r"ann\1example.com"),
    (r"\b[0-9a-f]{32}\b", "5f0c8a1be2d94c37..."),
    (r"20(?!26-05-0)\d\d-\d\d-\d\dT[\d:.]+Z", "2026-11-21T10:00:00.000Z"),
    (r'("cursor": ")[^"]+', r"\1AAABohmzZAzs-zgV"),
    (r"as on \d+ \w{3} \d{4}, [\d:]+ UTC", "as on 21 Nov 2026, 10:00 UTC"),
    (r'("(?:signature|publicKey)": ")[^"]+', r"\1bWdo..."),
    (r"http://testserver\.local", "https://penstock.example.com"),
    (r"\btestserver\.local", "penstock.example.com"),
    (r'("(?:elapsedSeconds|rowsRead|rowsToRead)": )[\d.]+', r"\g<1>1"),
)
"""Secrets, and values that differ from run to run, with their placeholders in the reference."""


def with_placeholders(text: str) -> str:
    for pattern, shown in _PLACEHOLDERS:
        text = re.sub(pattern, shown, text)
    return text


@dataclass
class Recorder:
    """Sends requests, and records each request with its response.

    services, clock, mails: parts of the application, for steps between the requests, such as
    reading an email.
    """

    tenant: Tenant
    services: Services
    clock: ShiftedClock
    mails: MailServer
    examples: list[Json] = field(default_factory=list)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Json | None = None,
        client: httpx.Client | None = None,
        headers: Mapping[str, str] | None = None,
        **parts: str,
    ) -> Any:
        """Send a request. Returns the response, parsed if it is JSON.

        path: a template such as `/api/goals/{goal_id}`. Its fields are in `parts`.
        body: sent as it is if it is a text, and otherwise as JSON.
        """
        address = httpx.URL(path.format(**parts), params=query or {})
        content = {"content": body} if isinstance(body, str) else {"json": body}
        client = client or self.tenant.client
        answer = client.request(method, address, headers=headers, **content)
        assert answer.is_success, answer.text
        media_type = answer.headers.get("content-type", "").partition(";")[0]
        response = answer.json() if media_type == "application/json" else answer.text or None
        example = {
            "operation": f"{method} {path}",
            "address": str(address),
            "body": body,
            "status": answer.status_code,
            "response": response,
        }
        if headers:
            example["headers"] = dict(headers)
        if isinstance(response, str):
            example["response"] = response[:MAX_TEXT_CHARS]
            example["mediaType"] = media_type
            example["isWhole"] = len(response) <= MAX_TEXT_CHARS
        self.examples.append(example)
        return response
