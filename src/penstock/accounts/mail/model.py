"""Plain types of mails. No I/O."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail in plain text. to: an email address without a name."""

    to: str
    subject: str
    text: str
