from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

from speech.networks.sharing import Sharing


class Network:
    pass


def test_a_value_in_use_is_loaded_once() -> None:
    sharing = Sharing()

    first = sharing.get("a", Network)

    assert sharing.get("a", Network) is first
    assert sharing.get("b", Network) is not first


def test_an_unused_value_is_released() -> None:
    sharing, loaded = Sharing(), []

    def load() -> Network:
        loaded.append(1)
        return Network()

    sharing.get("a", load)
    gc.collect()
    sharing.get("a", load)

    assert len(loaded) == 2


def test_simultaneous_threads_load_a_value_once() -> None:
    sharing, loaded = Sharing(), []

    def load() -> Network:
        time.sleep(0.02)
        loaded.append(1)
        return Network()

    with ThreadPoolExecutor(4) as threads:
        networks = list(threads.map(lambda _: sharing.get("a", load), range(4)))

    assert len(loaded) == 1
    assert len(set(map(id, networks))) == 1


def test_what_nobody_uses_is_not_found() -> None:
    sharing = Sharing()
    network = sharing.get("a", Network)
    assert sharing.find("a") is network

    del network
    gc.collect()

    assert sharing.find("a") is None
