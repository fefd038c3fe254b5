"""Adapters to Firestore: the documents of voices and of visitors' own characters."""
