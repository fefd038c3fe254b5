"""The decoder: its network, and the graphs that it becomes."""
