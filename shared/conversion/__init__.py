"""The work on a voice, from the lease to the stored result."""
