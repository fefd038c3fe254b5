"""The inside of the sandbox: a file becomes samples."""
