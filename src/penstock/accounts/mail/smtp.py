"""Client for the mail server at `PENSTOCK_SMTP_URL`."""

import smtplib
import ssl
from email.message import EmailMessage
from email.policy import default
from email.utils import formatdate, make_msgid, parseaddr
from urllib.parse import unquote, urlsplit

from penstock.accounts.mail.model import Mail
from penstock.settings.people import SMTP_PORTS

_TIMEOUT_S = 10.0
_POLICY = default.clone(max_line_length=900)
"""Python would encode a long URL in a header if it folded the header, and no program reads that."""


class UnclearResult(smtplib.SMTPException):
    """The connection was lost while the server may have accepted the email."""


class SmtpServer:
    """Sends emails, each over a separate connection."""

    def __init__(self, url: str, sender: str) -> None:
        """url: valid URL in the setting's format. sender: the `From` address of all emails."""
        parts = urlsplit(url)
        self._scheme, self._host = parts.scheme, parts.hostname or ""
        self._port = parts.port or SMTP_PORTS[parts.scheme]
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")
        self._sender = sender

    def send(self, mail: Mail, now_ms: int) -> None:
        """Send an email. Blocks for a few ten-second timeouts at most.

        Raises `OSError` or `smtplib.SMTPException`, of which `UnclearResult` is one.
        """
        with self._connection() as connection:
            if self._user:
                connection.login(self._user, self._password)
            try:
                self._send(connection, self._message(mail, now_ms))
            except (TimeoutError, smtplib.SMTPServerDisconnected) as error:
                raise UnclearResult from error

    def _send(self, connection: smtplib.SMTP, message: EmailMessage) -> None:
        """Send a message as `send_message` does, which would also write `>From` for `From` at the
        start of a line.
        """
        sender, to = parseaddr(message["From"])[1], message["To"]
        is_ascii = (sender + to).isascii()
        content = message.as_bytes(policy=_POLICY.clone(linesep="\r\n", utf8=not is_ascii))
        options = () if is_ascii else ("SMTPUTF8", "BODY=8BITMIME")
        connection.sendmail(sender, [to], content, options)

    def check(self) -> None:
        """Connect and log in without sending anything. Raises `OSError` or
        `smtplib.SMTPException`.
        """
        with self._connection() as connection:
            connection.noop()
            if self._user:
                connection.login(self._user, self._password)

    def _connection(self) -> smtplib.SMTP:
        """Open an encrypted connection with a verified certificate, unless the URL says
        `insecure`.
        """
        if self._scheme == "smtps":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self._host, self._port, timeout=_TIMEOUT_S, context=context)
        connection = smtplib.SMTP(self._host, self._port, timeout=_TIMEOUT_S)
        if self._scheme == "smtp":
            try:
                connection.starttls(context=ssl.create_default_context())
            except BaseException:
                connection.close()
                raise
        return connection

    def _message(self, mail: Mail, now_ms: int) -> EmailMessage:
        message = EmailMessage(_POLICY)  # rejects line breaks in headers
        message["From"], message["To"], message["Subject"] = self._sender, mail.to, mail.subject
        message["Date"] = formatdate(now_ms / 1000)
        message["Message-ID"] = make_msgid(domain=self._sender.rpartition("@")[2].strip("<> "))
        message["Auto-Submitted"] = "auto-generated"
        if mail.unsubscribe_url is not None:
            message["List-Unsubscribe"] = f"<{mail.unsubscribe_url}>"
            if mail.unsubscribe_url.startswith("https:"):  # Source: RFC 8058, section 3.1
                message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
        message.set_content(mail.text)
        if mail.html is not None:
            message.add_alternative(mail.html, subtype="html")
        return message
