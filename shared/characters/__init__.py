"""Characters: their manifests, their files, and the bucket that holds them."""
