"""The metadata DB: its errors and its time limits."""
