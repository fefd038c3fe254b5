"""The cost of conversions in US dollars."""
