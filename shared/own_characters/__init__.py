"""Characters that visitors make of their own voice: states, and what is stored of them."""
