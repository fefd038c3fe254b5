"""Servers that sign: Cloud KMS and an RFC 3161 time-stamp authority, with real keys."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from tests.support.http_server import Answer, Asked

if TYPE_CHECKING:
    from pathlib import Path


KEY_NAME: Final = "projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions"

_CONFIGURATION: Final = """
[tsa]
default_tsa = here
[here]
dir = {folder}
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
certs = {folder}/ca.pem
default_policy = 1.2.3.4.1
signer_digest = sha256
digests = sha256, sha384, sha512
accuracy = secs:1
ess_cert_id_alg = sha256
[extensions]
extendedKeyUsage = critical,timeStamping
keyUsage = critical,digitalSignature
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


class KeyServer:
    """Signs as Cloud KMS does, `asymmetricSign` of its REST API, version 1."""

    def __init__(self, keys: dict[int, str]) -> None:
        self._keys = {f"/{KEY_NAME}/{number}:asymmetricSign": pem for number, pem in keys.items()}
        self.asked: list[str] = []

    def __call__(self, asked: Asked) -> Answer:
        """Answer a request for a signature."""
        path = asked.path
        self.asked.append(path)
        pem = self._keys.get(path)
        if pem is None:
            error = {"error": {"code": 403, "status": "PERMISSION_DENIED"}}
            return Answer(json.dumps(error).encode(), 403)
        key = serialization.load_pem_private_key(pem.encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        digest = base64.b64decode(json.loads(asked.body)["digest"]["sha256"])
        signature = key.sign(digest, ec.ECDSA(Prehashed(hashes.SHA256())))
        said = {
            "name": path[1:].split(":", maxsplit=1)[0],
            "signature": base64.b64encode(signature).decode(),
        }
        return Answer(json.dumps(said).encode())


class TimeStampAuthority:
    """Stamps the time (RFC 3161) with OpenSSL, which has its own certificate authority here."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self.asked = 0
        (folder / "tsa.cnf").write_text(_CONFIGURATION.format(folder=folder))
        (folder / "serial").write_text("01\n")
        new = ("req", "-newkey", "rsa:2048", "-nodes")
        self._openssl(*new, "-x509", "-days", "2", "-subj", "/O=Test/CN=Root", "-keyout", "ca.key",
                      "-out", "ca.pem")  # fmt: skip
        self._openssl(*new, "-subj", "/O=Test/CN=Stamps", "-keyout", "tsa.key", "-out", "tsa.csr")
        self._openssl("x509", "-req", "-in", "tsa.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                      "-days", "2", "-CAcreateserial", "-extfile", "tsa.cnf", "-extensions",
                      "extensions", "-out", "tsa.pem")  # fmt: skip

    @property
    def certificate(self) -> str:
        """Of the authority that certified it, as PEM."""
        return (self._folder / "ca.pem").read_text()

    def __call__(self, asked: Asked) -> Answer:
        """Answer a request for a time stamp."""
        with self._lock:
            self.asked += 1
            (self._folder / "query.tsq").write_bytes(asked.body)
            self._openssl("ts", "-reply", "-config", "tsa.cnf", "-queryfile", "query.tsq", "-out",
                          "reply.tsr")  # fmt: skip
            kind = {"Content-Type": "application/timestamp-reply"}
            return Answer((self._folder / "reply.tsr").read_bytes(), headers=kind)

    def _openssl(self, *arguments: str) -> None:
        program = shutil.which("openssl")
        assert program is not None, "needs openssl"
        subprocess.run([program, *arguments], cwd=self._folder, check=True, capture_output=True)
