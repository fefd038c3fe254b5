from __future__ import annotations

import socket
import sys

import pytest

from infra.local.configuration.names import Ports

KEPT = pytest.mark.skipif(sys.platform != "linux", reason="ports are kept on Linux")


def listen(port: int) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen()
    return server


@KEPT
def test_a_port_that_is_kept_is_for_a_server_also_when_it_is_started_again() -> None:
    with Ports() as ports:
        (port,) = ports.free(1)
        for _ in range(2):
            with listen(port), socket.create_connection(("127.0.0.1", port)):
                pass
    with socket.socket() as strict:
        strict.bind(("127.0.0.1", port))


def ports_given_for(server: socket.socket) -> tuple[int, int]:
    """Return the ports that the system gives to a connection to a server and to another server."""
    with socket.create_connection(server.getsockname()) as going_out, socket.socket() as other:
        server.accept()[0].close()
        other.bind(("127.0.0.1", 0))
        return going_out.getsockname()[1], other.getsockname()[1]


@KEPT
def test_a_port_that_is_kept_is_given_to_nobody_else() -> None:
    with Ports() as ports, listen(*ports.free(1)) as server:
        kept = ports.free(200)
        used = {port for _ in range(300) for port in ports_given_for(server)}

    assert not used & set(kept)


@KEPT
def test_a_certain_port_is_kept_by_one_alone_also_while_old_connections_close() -> None:
    with Ports() as ports:
        (port,) = ports.free(1)
    with listen(port) as server, socket.create_connection(("127.0.0.1", port)):
        server.accept()[0].close()
    with Ports() as one, Ports() as other:
        assert one.keep(port)
        assert not other.keep(port)
        one.close()
        assert other.keep(port)
