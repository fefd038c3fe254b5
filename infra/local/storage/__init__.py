"""The local cloud's Cloud Storage: a server that the unmodified client libraries use.

`app.create_app` composes an ASGI application. It speaks the JSON API (what `google-cloud-storage` uses
with `STORAGE_EMULATOR_HOST`) and the XML API's object path (what signed URLs use).

The JSON API accepts anonymous requests as the owner's: the client library is always anonymous when
it talks to an emulator. That is sound because the server is bound to 127.0.0.1 and refuses requests
that a web page of another origin could send (see `guard`). The object path, which browsers use, is
private: it obeys valid V4 signatures only.
"""
