"""What can be chosen about a local cloud, and where its services listen."""
