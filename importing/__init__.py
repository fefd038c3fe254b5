"""Makes character bundles of files that a voice owner has; `python -m importing` is the command."""
