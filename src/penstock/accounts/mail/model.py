"""Plain types for emails. No I/O."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mail:
    """A plain-text email. to: an email address without a name."""

    to: str
    subject: str
    text: str
