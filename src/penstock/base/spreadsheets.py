"""Cells that a spreadsheet would run as a formula, and how they are made harmless."""

_FORMULA_SIGNS = "=+-@＝＋－＠﹦﹢﹣﹫"
"""A spreadsheet may take a text for a formula that begins with one, also full-width or small.

Source: OWASP, "CSV Injection".
"""
_DROPPED = (
    "".join(character for character in map(chr, range(0x3001)) if character.isspace())
    + "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
)
"""Blanks that a spreadsheet may drop in front of a sign."""


def is_formula(text: str) -> bool:
    """Whether a spreadsheet may run the text: it begins with a sign or a control character."""
    begins_with_control = text[:1] < " " or "\x7f" <= text[:1] <= "\x9f"
    sign = text.lstrip(_DROPPED)[:1]
    return text != "" and (begins_with_control or (sign != "" and sign in _FORMULA_SIGNS))


def harmless(text: str) -> str:
    """The text, marked with an apostrophe where a spreadsheet would run it as a formula."""
    return f"'{text}" if is_formula(text) else text


def as_cell(text: str) -> str:
    """The text as `from_cell` reads it back: a text that looks marked gets a mark, too."""
    return f"'{text}" if is_formula(text.lstrip("'")) else text


def from_cell(cell: str) -> str:
    """The text of a cell that `as_cell` made."""
    return cell[1:] if cell.startswith("'") and is_formula(cell.lstrip("'")) else cell
