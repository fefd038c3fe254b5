"""How fast live conversion is, beside the upload path."""
