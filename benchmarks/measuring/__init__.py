"""What the benchmarks share: reports, recordings, servers, load, journeys of voices."""
