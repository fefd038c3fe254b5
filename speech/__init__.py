"""Everything that turns sound into sound: audio, character bundles, engines; no cloud."""
