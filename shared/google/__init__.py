"""Adapters for Google Cloud's services."""
