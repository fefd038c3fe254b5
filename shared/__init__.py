"""What two or more deployables need, in layers.

At the top are the pure modules: the states of a voice, documents, messages, objects, settings,
errors. `ports` holds the protocols of what is outside, `google` their implementations with Google
Cloud, and `http` what serves requests.
"""
