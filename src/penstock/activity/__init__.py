"""Visitors with their timelines, exports of personal data, and live events."""
