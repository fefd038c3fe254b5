"""The ports: protocols for what the deployables need from the outside.

`store` keeps the voices' documents, `bucket` keeps the objects, `topic` takes messages, and
`tokens` tells who sent a request. `shared.google` implements them with Google Cloud; the local
cloud and the tests have implementations of their own.
"""
