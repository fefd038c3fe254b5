"""Work on a recording while it comes: decoding it, hearing it, and converting it ahead."""
