"""Composes emails with a text and a page, which have the same content."""

from collections.abc import Sequence
from dataclasses import replace

from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.accounts.mail.model import Mail, MailSection
from penstock.accounts.mail.names import plain_sentence

_TEMPLATES = Environment(
    loader=PackageLoader("penstock.accounts.mail"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)


def compose_mail(
    to: str,
    subject: str,
    sections: Sequence[MailSection],
    *,
    footer: Sequence[str],
    unsubscribe_url: str | None = None,
) -> Mail:
    """Return the email. All texts but the links are stripped of anything clickable.

    footer: why the recipient gets the email, in sentences.
    """
    subject = plain_sentence(subject)
    footer = [plain_sentence(line) for line in footer]
    sections = [
        replace(
            section,
            title=plain_sentence(section.title),
            note=plain_sentence(section.note),
            lines=tuple(map(plain_sentence, section.lines)),
            table=tuple((plain_sentence(name), *figures) for name, *figures in section.table),
        )
        for section in sections
    ]
    html = _TEMPLATES.get_template("mail.html").render(
        subject=subject, sections=sections, footer=footer, unsubscribe_url=unsubscribe_url
    )
    end = [*footer, *([f"Unsubscribe: {unsubscribe_url}"] if unsubscribe_url else [])]
    parts = [*map(_section_text, sections), "\n".join(["--", *end])]
    return Mail(to, subject, "\n\n".join(parts) + "\n", html, unsubscribe_url)


def _section_text(section: MailSection) -> str:
    head = section.title + (f"\n{section.note}" if section.note else "")
    blocks = ["\n".join(section.lines), "\n".join(_table_lines(section.table))]
    links = {section.link_text: section.link, "Receipt": section.receipt}
    lines = "\n".join(f"{text}: {link}" for text, link in links.items() if link)
    return "\n\n".join([head, *filter(None, [*blocks, lines])])


def _table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines, for a font whose characters have one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
