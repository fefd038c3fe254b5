"""Sessions that several characters share, because they run the very same graph."""

import hashlib
import threading
from weakref import WeakValueDictionary

from speech.bundles.bundle import Graph
from speech.engines.base import SessionSettings
from speech.engines.session import GraphSession


class SessionPool:
    """Hands out one session for each graph, whoever asks; a session that nobody uses is freed.

    Graphs are known by the SHA-256 of their content. Loading one waits for another that is being
    loaded; running them does not.
    """

    def __init__(self) -> None:
        self._sessions: WeakValueDictionary[tuple[str, SessionSettings], GraphSession] = (
            WeakValueDictionary()
        )
        self._loading = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    def session(self, graph: Graph, settings: SessionSettings) -> GraphSession:
        """Load a graph, unless it is loaded already.

        Raises:
            BundleError: the runtime refuses the graph.
        """
        key = (hashlib.sha256(graph.content).hexdigest(), settings)
        with self._loading:
            session = self._sessions.get(key)
            if session is None:
                session = GraphSession(graph, settings)
                self._sessions[key] = session
        return session
