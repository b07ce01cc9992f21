"""Calculates rates."""


def rate(part: int, whole: int) -> float | None:
    """Return part / whole, rounded to four decimals; None if whole is 0. Source: interface, rule
    15.
    """
    return round(part / whole, 4) if whole else None
