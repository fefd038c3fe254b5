"""The commands about characters: check, import, encoder, put, remove, list, rename, delete, set."""
