"""Servers under load: what the benchmarks of throughput and of HTTP have in common."""
