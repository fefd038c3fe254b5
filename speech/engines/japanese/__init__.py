"""The built-in Japanese speech synthesis: an HTS voice's."""
