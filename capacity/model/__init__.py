"""Everything that a simulated day is made of: arrivals, settings, the way of a voice, a run."""
