"""Converts amounts of money from a provider's minor units to a currency's main unit."""

from typing import Any

_WITHOUT_MINOR_UNIT = frozenset(
    (
        "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF",
        "XOF", "XPF",
    )
)  # fmt: skip
_WITH_THREE_DIGITS = frozenset(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"))


def currency_code(value: Any) -> str | None:
    """Return the value as an upper-case ISO 4217 code, or None if it does not look like a code."""
    if not isinstance(value, str) or len(value) != 3 or not (value.isascii() and value.isalpha()):
        return None
    return value.upper()


def main_units(minor: Any, currency: str) -> int | float | None:
    """Convert an amount to the currency's main unit.

    For example, 1999 becomes 19.99 in EUR, and stays 1999 in JPY. Returns None if `minor` is not a
    64-bit integer. ISK and UGX have no minor unit either, but providers report them in hundredths.
    Source: Stripe, "Supported currencies", zero-decimal currencies and special cases.
    """
    if isinstance(minor, bool) or not isinstance(minor, int) or abs(minor) >= 2**63:
        return None
    scale = (
        1 if currency in _WITHOUT_MINOR_UNIT else 1000 if currency in _WITH_THREE_DIGITS else 100
    )
    return minor // scale if minor % scale == 0 else minor / scale
