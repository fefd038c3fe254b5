"""What two or more deployables need."""
