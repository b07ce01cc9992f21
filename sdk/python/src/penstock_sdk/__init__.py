"""Send events to Penstock and read its funnels."""

from penstock_sdk.calls import PenstockError
from penstock_sdk.client import AsyncPenstock, Penstock
from penstock_sdk.events import JSON, Refusal, metadata
from penstock_sdk.outbox import Full

__all__ = ["JSON", "AsyncPenstock", "Full", "Penstock", "PenstockError", "Refusal", "metadata"]
