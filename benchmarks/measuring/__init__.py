"""Shared by the benchmarks: reports, recordings, servers, load, journeys of voices."""
