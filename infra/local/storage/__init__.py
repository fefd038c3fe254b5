"""The local cloud's Cloud Storage: a server that the unmodified client libraries use.

`app.create_app` composes the ASGI application. It speaks the JSON API, which `google-cloud-storage`
uses with `STORAGE_EMULATOR_HOST`, and the object path of the XML API, which signed URLs use. What
it implements, and what it does not, is in README.md.
"""
