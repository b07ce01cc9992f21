"""Measurements, each as a ratio within one run. `make bench` runs all and writes `bench/results.md`."""
