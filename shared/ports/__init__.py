"""The ports: what the deployables need of the outside, as protocols."""
