"""How a container begins: its settings, its log, its port, and the end if they are wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from conversion.serving.serving import ServingSettings, listening_socket
from shared.process import settings
from speech.bundles.files import BundleError

if TYPE_CHECKING:
    from collections.abc import Callable


class HasLogs(Protocol):
    """Settings that say how to log."""

    def configure_logs(self) -> None:
        """Log in this process as they say."""


_Settings = TypeVar("_Settings", bound=ServingSettings)


def run_container(kind: type[_Settings], run: Callable[[_Settings], None]) -> None:
    """Run a container; exit with status 2 and a message if settings or bundles are wrong.

    Args:
        kind: which settings it has; they come from the environment.
        run: serves until SIGTERM or SIGINT.
    """
    try:
        config = settings.load(kind)
        cast("HasLogs", config).configure_logs()
        listening_socket(config.host, config.port).close()  # fails before networks are loaded
        run(config)
    except (settings.SettingsError, BundleError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there may be no log yet
        sys.exit(2)
