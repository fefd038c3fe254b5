"""Trying out the conversion container's image where no container engine is at hand."""
