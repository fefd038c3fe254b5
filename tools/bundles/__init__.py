"""Consent, bundles and trials, for imports and trainings."""
