"""The pitch models of RVC."""
