"""Plain types for emails. No I/O."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mail:
    """An email. to: an email address without a name.

    text: the whole content. html: the same content as a page; None for an email of only text.
    unsubscribe_url: where mail programs unsubscribe the recipient; None if they cannot.
    """

    to: str
    subject: str
    text: str
    html: str | None = None
    unsubscribe_url: str | None = None


@dataclass(frozen=True, slots=True)
class MailSection:
    """A part of an email with a page: its title, sentences, and a link to more.

    note: a short text below the title, such as a period; may be empty. table: rows below the
    sentences, the head first; all columns but the first one are figures. link: None without one.
    receipt: address of the receipt of its number; None without one.
    """

    title: str
    lines: tuple[str, ...]
    note: str = ""
    table: tuple[tuple[str, ...], ...] = ()
    link: str | None = None
    link_text: str = ""
    receipt: str | None = None
