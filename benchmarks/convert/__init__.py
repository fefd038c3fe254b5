"""What one conversion costs, taken apart."""
