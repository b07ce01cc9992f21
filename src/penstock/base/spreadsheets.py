"""Escapes cells that a spreadsheet would run as a formula."""

from penstock.base.hidden_text import without_hidden_start

_FORMULA_SIGNS = "=+-@＝＋－＠﹦﹢﹣﹫"
"""Characters that may start a formula in a spreadsheet, including full-width and small forms.

Source: OWASP, "CSV Injection".
"""


def is_formula(text: str) -> bool:
    """Whether a spreadsheet may run the text as a formula.

    This is the case if it starts with a sign or a control character. White space and invisible
    characters before the sign do not count, because a spreadsheet may ignore them.
    """
    begins_with_control = text[:1] < " " or "\x7f" <= text[:1] <= "\x9f"
    sign = without_hidden_start(text)[:1]
    return text != "" and (begins_with_control or (sign != "" and sign in _FORMULA_SIGNS))


def escape_formula(text: str) -> str:
    """Return the text. Adds a leading apostrophe if a spreadsheet would run it as a formula."""
    return f"'{text}" if is_formula(text) else text


def encode_cell(text: str) -> str:
    """Encode a text for `decode_cell`. A text that already looks escaped is escaped again."""
    return f"'{text}" if is_formula(text.lstrip("'")) else text


def decode_cell(cell: str) -> str:
    """Return the original text of a cell from `encode_cell`."""
    return cell[1:] if cell.startswith("'") and is_formula(cell.lstrip("'")) else cell
