"""Sound as the training takes it: features, and how it is disturbed."""
