"""Characters that visitors make of their own voice; only where the operator allows them."""
