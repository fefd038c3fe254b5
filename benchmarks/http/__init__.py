"""Which server speaks HTTP for the least processor time."""
