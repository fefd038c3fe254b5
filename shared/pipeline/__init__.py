"""Steps that several deployables take."""
