"""Repeats: which events were accepted before."""
