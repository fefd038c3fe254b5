"""Takes the place of Firebase Authentication, of which the Google Cloud CLI has no emulator.

It answers the requests that Firebase's SDK sends to sign in, with tokens that the local cloud's own
key has signed: https://cloud.google.com/identity-platform/docs/reference/rest/v1/accounts
"""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from infra.local.configuration import names
from infra.local.configuration.keys import make_key
from infra.local.configuration.options import SignInOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.local.configuration.keys import SigningKey


class RefusedError(Exception):
    """What Firebase Authentication refuses, by the name that it gives the reason."""


@dataclass
class Account:
    uid: str
    email: str | None = None
    password: str | None = None


@dataclass
class SignInDesk:
    """Accounts, and the tokens of their owners."""

    key: SigningKey
    accounts: list[Account] = field(default_factory=list)

    def answer(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        action = path.rpartition("/")[2].rpartition(":")[2]
        if action == "signUp":
            return self._tokens(self._open(asked.get("email"), asked.get("password")))
        if action == "signInWithPassword":
            return self._tokens(self._enter(asked["email"], asked["password"]))
        if action == "lookup":
            # The page has just got the token from here.
            account = self.accounts[-1]
            return {"users": [{"localId": account.uid, "email": account.email}]}
        if action == "token":
            (uid,) = (each.uid for each in self.accounts if each.uid == asked["refresh_token"])
            tokens = self._tokens(Account(uid))
            return {"id_token": tokens["idToken"], "refresh_token": uid, "expires_in": "3600"}
        raise RefusedError("OPERATION_NOT_ALLOWED")

    def _open(self, email: str | None, password: str | None) -> Account:
        if email and any(each.email == email for each in self.accounts):
            raise RefusedError("EMAIL_EXISTS")
        self.accounts.append(Account(uuid.uuid4().hex, email, password))
        return self.accounts[-1]

    def _enter(self, email: str, password: str) -> Account:
        for each in self.accounts:
            if (each.email, each.password) == (email, password):
                # The newest is who is looked up.
                self.accounts.remove(each)
                self.accounts.append(each)
                return each
        raise RefusedError("INVALID_LOGIN_CREDENTIALS")

    def _tokens(self, account: Account) -> dict[str, Any]:
        token = self.key.visitor_token(names.PROJECT_ID, account.uid)
        named = {"email": account.email} if account.email else {}
        facts = {"idToken": token, "refreshToken": account.uid, "expiresIn": "3600"}
        return facts | named | {"localId": account.uid}


@contextmanager
def open_desk() -> Iterator[SignInOptions]:
    desk = SignInDesk(make_key())

    class Handler(BaseHTTPRequestHandler):
        def do_OPTIONS(self) -> None:
            self._send(204, None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            is_form = "form-urlencoded" in self.headers["Content-Type"]
            form = {name: values[0] for name, values in parse_qs(body).items()}
            asked = form if is_form else json.loads(body)
            try:
                self._send(200, desk.answer(urlsplit(self.path).path, asked))
            except RefusedError as refusal:
                self._send(400, {"error": {"code": 400, "message": str(refusal)}})

        def log_message(self, *_: object) -> None:
            pass

        def _send(self, status: int, answer: dict[str, Any] | None) -> None:
            self.send_response(status)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Access-Control-Allow-Headers", "*")
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            if answer is not None:
                self.wfile.write(json.dumps(answer).encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield SignInOptions(f"http://127.0.0.1:{server.server_port}", desk.key)
        finally:
            server.shutdown()
