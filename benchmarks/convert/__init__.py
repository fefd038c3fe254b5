"""The cost of one conversion, taken apart."""
