"""How long a new instance takes until it can convert."""
