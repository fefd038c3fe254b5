"""Character bundles: read, checked, and tried."""
