"""Whether the watermark is found again, what it changes, and what it costs."""
