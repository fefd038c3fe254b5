"""The deployables: one folder each, none needs another."""
