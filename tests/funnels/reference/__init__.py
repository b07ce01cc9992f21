"""Funnels in plain Python: a second evaluation, written from docs/funnels.md alone.

Tests compare the engine's statement and the trace with it. It takes a definition as the API takes
it, and shares no code with the service. It prefers the rules' own words to speed.
"""

from tests.funnels.reference.history import Event, History
from tests.funnels.reference.report import evaluate

__all__ = ["Event", "History", "evaluate"]
