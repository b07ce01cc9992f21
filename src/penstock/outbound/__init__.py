"""Sends requests to addresses that members choose."""
