"""Receipts: signed numbers that say later whether they still hold, and what changed them."""
