"""The queue of outgoing emails, and the worker that sends them."""

import smtplib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from penstock.accounts.mail.model import Mail
from penstock.accounts.mail.smtp import SmtpServer
from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable
from penstock.base.worker import Worker
from penstock.settings import Settings

log = structlog.get_logger()

Compose = Callable[[], Mail | None]
"""A function that composes an email. It runs in the worker. If it returns None, nothing is sent."""

_MAX_QUEUED = 1000
_RETRY_AFTER_S = (5, 30, 120, 600, 600)


@dataclass(slots=True)
class _QueuedMail:
    """An email in the queue. due_ms: when to send it, in elapsed milliseconds of the clock. mail:
    None until composed.
    """

    compose: Compose
    due_ms: int
    mail: Mail | None = None
    failures: int = 0


class Mailer:
    """Sends emails one after the other, if a mail server is configured.

    An email that the server does not accept is retried for twenty minutes, then logged and dropped;
    other emails do not wait for it. A restart loses the queued emails, and people have to request
    them again.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        url, self._clock = settings.smtp_url, clock
        self._server = SmtpServer(url.get_secret_value(), settings.mail_from or "") if url else None
        self._queue: deque[_QueuedMail] = deque()
        self.worker = Worker("mail", self._send_due, clock, last_step=self._send_due)

    @property
    def is_set_up(self) -> bool:
        return self._server is not None

    def post(self, compose: Compose) -> bool:
        """Queue an email. Never blocks.

        Returns False if there is no mail server or the queue is full.
        """
        if self._server is None or len(self._queue) >= _MAX_QUEUED:
            return False
        self._queue.append(_QueuedMail(compose, self._clock.elapsed_ms()))
        self.worker.wake()
        return True

    def send(self, mail: Mail) -> None:
        """Send an email now, for callers that repeat it themselves. Blocks, and raises `OSError` or
        `smtplib.SMTPException`.
        """
        if self._server is None:
            raise OSError("no mail server is set up")
        self._server.send(mail, self._clock())

    def _send_due(self) -> float | None:
        """Send all emails that are due. Returns the seconds until the next email is due; None if
        the queue is empty.
        """
        for _ in range(len(self._queue)):
            self.worker.report_progress()
            first = self._queue[0]
            is_done = first.due_ms <= self._clock.elapsed_ms() and self._try_send(first)
            self._queue.popleft()
            if not is_done:
                self._queue.append(first)
                if self.worker.is_stopping:  # an unreachable server must not delay the stop
                    break
        if not self._queue:
            return None
        next_ms = min(queued.due_ms for queued in list(self._queue))
        return max(0.1, (next_ms - self._clock.elapsed_ms()) / 1000)

    def _try_send(self, queued: _QueuedMail) -> bool:
        """Try to send the email. Returns False if it should be retried later.

        Returns True if the email was sent or can never be sent. If `compose` raises
        `StoreUnavailable`, the error propagates and the worker repeats the step.
        """
        assert self._server is not None
        try:
            queued.mail = queued.mail or queued.compose()
            if queued.mail is None:
                return True
            self._server.send(queued.mail, self._clock())
        except StoreUnavailable:
            raise
        except (OSError, smtplib.SMTPException) as error:
            queued.failures += 1
            is_last = is_final(error) or queued.failures > len(_RETRY_AFTER_S)
            log.warning(
                "mail_dropped" if is_last else "mail_not_sent",
                error=type(error).__name__,
                smtp_code=getattr(error, "smtp_code", None),
                failures=queued.failures,
            )
            if is_last:
                return True
            queued.due_ms = self._clock.elapsed_ms() + _RETRY_AFTER_S[queued.failures - 1] * 1000
            return False
        except Exception as error:  # an email that cannot be composed must not block the others
            log.error("mail_dropped", error=type(error).__name__)
        return True


def is_final(error: Exception) -> bool:
    """Whether the server rejected this email permanently."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code >= 500 for code, _ in error.recipients.values())
    return isinstance(error, smtplib.SMTPDataError) and error.smtp_code >= 500
