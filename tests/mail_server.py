"""A mail server for tests, on the loopback interface."""

import asyncio
import email.policy
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from typing import Any, cast

from aiosmtpd.smtp import SMTP
from anyio.from_thread import start_blocking_portal
from pydantic import SecretStr

from tests.waiting import eventually


class MailServer:
    """Stores accepted messages. answers: replies to send for the next messages, instead of 250."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.answers: list[str] = []
        self.attempts = 0
        self.url = ""

    def settings(self) -> dict[str, Any]:
        """Settings of a service that sends its mails here."""
        return {"smtp_url": SecretStr(self.url), "mail_from": "penstock@example.com"}

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        self.attempts += 1
        if self.answers:
            return self.answers.pop(0)
        message = message_from_bytes(envelope.content, policy=email.policy.default)
        self.mails.append(cast("EmailMessage", message))
        return "250 OK"

    def mail(self, number: int = 0) -> EmailMessage:
        """Wait for the message with this index, counted from 0, and return it."""
        eventually(lambda: len(self.mails) > number)
        return self.mails[number]

    def text(self, number: int = 0) -> str:
        body = self.mail(number).get_body(("plain",))
        assert body is not None
        text: str = body.get_content()
        return text.replace("\r\n", "\n")


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """A running server. Its URL is in `url`."""
    server = MailServer()

    async def listen() -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: SMTP(server, loop=loop), "127.0.0.1", 0)

    with start_blocking_portal() as portal:  # Playwright's loop may be running in this thread.
        listener = portal.call(listen)
        server.url = f"smtp+insecure://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        try:
            yield server
        finally:
            portal.call(listener.close)
