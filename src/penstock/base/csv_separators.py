"""Finds the separator of a CSV file. Spreadsheets write semicolons where the comma is decimal."""

SEPARATORS = ",;\t|"
_STATEMENT = "sep="


def stated_separator(line: str) -> str | None:
    """Return the separator that a line such as `sep=;` states for spreadsheets; None for any other
    line, such as a header.
    """
    text = line.strip("\r\n").strip('"')
    is_statement = len(text) == len(_STATEMENT) + 1 and text.lower().startswith(_STATEMENT)
    return text[-1] if is_statement else None


def separator_of(header: str) -> str:
    """Return the separator of the columns in a header row."""
    return max(SEPARATORS, key=header.count)
