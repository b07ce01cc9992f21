"""Evaluates funnels in plain Python, following only docs/funnels.md.

Tests compare the engine's statement and the trace with it. It reads a definition in the API's
format, and shares no code with the service. It follows the wording of the rules, even where that is
slow.
"""

from tests.funnels.reference.history import Event, History
from tests.funnels.reference.report import evaluate

__all__ = ["Event", "History", "evaluate"]
