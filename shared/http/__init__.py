"""What serves HTTP in two or more deployables."""
