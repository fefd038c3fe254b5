"""An RVC checkpoint: its weights and its configuration."""
