"""A budget for the work that a task does at once, such as one batch of an import."""

from dataclasses import dataclass
from time import monotonic

from penstock.base.value_budget import count_values


@dataclass(slots=True)
class WorkBudget:
    """The work that a batch may still add.

    items: number of results, such as events. size: bytes of the JSON texts. values: number of JSON
    values in the texts, which need more memory than the texts. until_s: monotonic time in seconds.
    """

    items: int
    size: int
    values: int
    until_s: float

    def spend(self, items: int, text: bytes) -> None:
        """Subtract the work for one JSON text. items: number of its results."""
        self.items -= items
        self.size -= len(text)
        self.values -= count_values(text)

    def is_spent(self) -> bool:
        """Whether nothing more may be added. The last text may exceed the budget."""
        has_rest = self.items > 0 and self.size > 0 and self.values > 0
        return not has_rest or monotonic() >= self.until_s
