"""The capacity planner: what a crowd does to this service, simulated before it comes.

`nox -s capacity` runs it; `docs/scale.md` says what it found.
"""
