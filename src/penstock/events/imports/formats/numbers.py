"""Reads the numbers and IDs in the cells of a table, as people and spreadsheets write them."""

from typing import Any
from unicodedata import category

from penstock.base.patterns import is_decimal, is_digits, is_integer
from penstock.events.imports.formats.schema import DecimalMark

_MAX_CHARS = 40
_MARKS = {DecimalMark.POINT: (".", ","), DecimalMark.COMMA: (",", ".")}
"""For each decimal mark, its character and the one between thousands."""
_THOUSANDS = " \u00a0\u2009\u202f'\u2019"
"""Other characters between thousands: spaces and apostrophes."""
_GROUP = 3
_MINUS = "-\u2212"
_CURRENCIES = frozenset(
    (
        "AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "INR", "JPY",
        "KRW", "MXN", "NOK", "NZD", "PLN", "SEK", "SGD", "TRY", "USD", "ZAR",
        "Fr", "Fr.", "Kč", "kr", "kr.", "zł",
    )
)  # fmt: skip
"""Words for currencies beside a number, in addition to signs such as €."""
_EXACT = 2**53
"""From this number on, a floating-point number does not distinguish all whole numbers."""
_NOT_A_NUMBER = {
    DecimalMark.POINT: "Must be a number, such as 19.99 or 1,234.50. If 19,99 is right, set "
    "decimal to comma.",
    DecimalMark.COMMA: "Must be a number with a decimal comma, such as 19,99 or 1.234,50.",
}
_NOT_AN_ID = "An ID must be a text or a whole number."
_INEXACT_ID = (
    "This ID is a floating-point number of 2^53 or more, whose last digits are lost, so it could "
    "name somebody else. Export the column as whole numbers or as text."
)


def read_number(text: str, mark: DecimalMark) -> int | float:
    """Return the number in a text, which may have thousands marks and the sign of a currency.

    Raises `ValueError` with a message that says what the text must be.
    """
    text = text.strip()
    plain = text if mark is DecimalMark.POINT and is_decimal(text) else _plain(text, mark)
    if plain is None or len(text) > _MAX_CHARS:
        raise ValueError(_NOT_A_NUMBER[mark])
    return float(plain) if "." in plain else int(plain)


def _plain(text: str, mark: DecimalMark) -> str | None:
    """Return a number as digits with a decimal point at most; None if the text is not a number."""
    digits = [index for index, character in enumerate(text) if is_digits(character)]
    if not digits:
        return None
    first, last = digits[0], digits[-1] + 1
    before, number, after = text[:first], text[first:last], text[last:].strip()
    unsigned = before.translate(dict.fromkeys(map(ord, _MINUS)))
    currencies = [part for part in (unsigned.strip(), after) if part]
    if len(before) - len(unsigned) > 1 or len(currencies) > 1:
        return None
    if not all(map(_is_currency, currencies)):
        return None
    point, between = _MARKS[mark]
    whole, dot, fraction = number.partition(point)
    if dot and not is_digits(fraction):
        return None
    separators = [each for each in between + _THOUSANDS if each in whole]
    if separators:
        start, *groups = whole.split(separators[0])
        if len(start) > _GROUP or any(len(group) != _GROUP for group in groups):
            return None
        whole = start + "".join(groups)
    if not is_digits(whole):
        return None
    sign = "-" if len(unsigned) < len(before) else ""
    return f"{sign}{whole}.{fraction}" if dot else sign + whole


def _is_currency(text: str) -> bool:
    return text in _CURRENCIES or all(category(character) == "Sc" for character in text)


def read_id(cell: Any) -> str:
    """Return an ID as text. A table may store whole numbers as floats, if other cells are empty.

    Raises `ValueError` with a message that says what the ID must be.
    """
    if isinstance(cell, float):
        if not cell.is_integer():
            raise ValueError(_NOT_AN_ID)
        return _exact(int(cell))
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        raise ValueError(_NOT_AN_ID)
    return _id_of_text(cell) if isinstance(cell, str) else str(cell)


def _id_of_text(text: str) -> str:
    """Read an ID whose whole number a spreadsheet or a program may have written as a float."""
    whole, point, fraction = text.partition(".")
    if not point or not is_integer(whole):
        return text
    if fraction == "0":
        return _exact(int(whole)) if len(whole) <= _MAX_CHARS else text
    mantissa, exponent, power = fraction.upper().partition("E+")
    if exponent and is_digits(mantissa) and is_digits(power):
        raise ValueError(_INEXACT_ID)
    return text


def _exact(number: int) -> str:
    if abs(number) >= _EXACT:
        raise ValueError(_INEXACT_ID)
    return str(number)
