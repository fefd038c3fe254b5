"""The owner's spoken consent."""
