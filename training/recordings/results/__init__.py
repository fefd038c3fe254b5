"""What comes out of a training: the bundle, its figures, the page to listen to."""
