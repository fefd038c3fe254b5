"""RVC voices: the checkpoint, the index and the exports that other programs make."""
