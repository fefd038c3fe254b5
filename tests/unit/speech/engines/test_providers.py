from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from speech.bundles.files import BundleError
from speech.bundles.reading import load_character
from speech.engines.registry import ENGINES, build_engine
from speech.networks.providers import Provider
from speech.networks.settings import SessionSettings
from tests.unit.speech.bundles import write_bundle, write_waveform_bundle
from tests.unit.speech.graphs import gain_graph

if TYPE_CHECKING:
    from pathlib import Path

CUDA = SessionSettings(provider=Provider.CUDA)


class SessionOn:
    """Stands for a session of the runtime that runs with these providers."""

    def __init__(self, *providers: str) -> None:
        self._providers = list(providers)

    def get_providers(self) -> list[str]:
        return self._providers


def test_a_gpu_is_not_replaced_by_the_cpu_unnoticed(tmp_path: Path) -> None:
    bundle = write_waveform_bundle(tmp_path, gain_graph(0.5))

    with pytest.raises(BundleError, match="expected the CUDA build of ONNX Runtime"):
        build_engine(load_character(bundle, ENGINES), CUDA)


def test_a_session_that_the_runtime_made_without_the_gpu_is_refused() -> None:
    with pytest.raises(BundleError, match="expected a GPU"):
        Provider.CUDA.require_used(SessionOn("CPUExecutionProvider"))  # type: ignore[arg-type]

    Provider.CUDA.require_used(  # the first that the runtime has is used
        SessionOn("CUDAExecutionProvider", "CPUExecutionProvider")  # type: ignore[arg-type]
    )
    Provider.CPU.require_used(SessionOn("CPUExecutionProvider"))  # type: ignore[arg-type]


def test_a_small_graph_that_was_optimised_for_a_cpu_stays_there(tmp_path: Path) -> None:
    engine = build_engine(load_character(write_bundle(tmp_path), ENGINES), CUDA)

    assert engine.sample_rate == 24_000
