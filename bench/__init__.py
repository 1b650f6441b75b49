"""Reproduces the tables of docs/benchmarks.md: ``python -m bench --help``."""
