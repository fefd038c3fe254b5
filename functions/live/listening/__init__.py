"""Work on a recording while it comes: hearing it, and converting it ahead."""
