"""The parts that every dialect of `compat` uses: keys, speech, encoders, requests."""
