"""The decoder learns a voice, stage by stage."""
