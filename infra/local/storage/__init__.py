"""The local cloud's Cloud Storage: a server that the unmodified client libraries use.

`app.create_app` makes the ASGI application. README.md lists what it implements.
"""
