"""The local cloud, with Google's emulators or in one process."""
