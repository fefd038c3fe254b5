from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

from speech.engines.sharing import Sharing


class Network:
    pass


def test_what_is_in_use_is_loaded_once() -> None:
    sharing = Sharing()

    first = sharing.get("a", Network)

    assert sharing.get("a", Network) is first
    assert sharing.get("b", Network) is not first


def test_what_nobody_uses_is_let_go() -> None:
    sharing, loaded = Sharing(), []

    def load() -> Network:
        loaded.append(1)
        return Network()

    sharing.get("a", load)
    gc.collect()
    sharing.get("a", load)

    assert len(loaded) == 2


def test_threads_that_ask_at_the_same_time_load_once() -> None:
    sharing, loaded = Sharing(), []

    def load() -> Network:
        time.sleep(0.02)
        loaded.append(1)
        return Network()

    with ThreadPoolExecutor(4) as threads:
        networks = list(threads.map(lambda _: sharing.get("a", load), range(4)))

    assert len(loaded) == 1
    assert len(set(map(id, networks))) == 1
