"""Benchmarks. Each one measures a baseline in the same run. `make bench` writes
`bench/results.md`.
"""
