"""What clients leave: presets and words."""
