"""Judges that know words and naturalness, and what they say of every character."""
