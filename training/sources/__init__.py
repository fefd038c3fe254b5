"""Speakers whose speech is converted during training, each with its phone times."""
