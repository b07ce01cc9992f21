"""Bound parameters of a statement. Values are sent separately from the SQL."""

from typing import Any


class Binder:
    """Collects values and returns a placeholder for each.

    >>> binder = Binder()
    >>> binder.bind("String", "pro")
    '{p0:String}'
    >>> binder.values
    {'p0': 'pro'}
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._names: dict[tuple[str, str], str] = {}

    def bind(self, engine_type: str, value: Any) -> str:
        """Return the placeholder for a value. Equal values share a placeholder.

        engine_type: the engine's name of the type, such as `String` or `Array(UInt64)`.
        """
        key = (engine_type, repr(value))
        name = self._names.setdefault(key, f"p{len(self._names)}")
        self.values[name] = value
        return f"{{{name}:{engine_type}}}"
