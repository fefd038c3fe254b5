"""Characters that visitors make of their own voice."""
