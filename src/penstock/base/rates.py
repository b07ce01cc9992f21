"""Shares of wholes."""


def rate(part: int, whole: int) -> float | None:
    """A share, rounded to four decimals; None without a denominator. Source: interface, rule 15."""
    return round(part / whole, 4) if whole else None
