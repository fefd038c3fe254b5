"""What conversions cost in US dollars."""
