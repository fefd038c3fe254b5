"""The engine `rvc`: voices of Retrieval-based Voice Conversion."""
