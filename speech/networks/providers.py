"""Where ONNX Runtime runs graphs: on the CPU, or on an NVIDIA GPU with the runtime's CUDA build."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from speech.bundles.files import BundleError

if TYPE_CHECKING:
    import onnxruntime

_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


class Provider(StrEnum):
    """Where graphs run."""

    CPU = "cpu"
    CUDA = "cuda"

    @property
    def arena(self) -> str:
        """The memory that ONNX Runtime gives back after a run, as it names it."""
        return "cpu:0" if self is Provider.CPU else "cpu:0;gpu:0"

    def choices(self) -> list[str | tuple[str, dict[str, Any]]]:
        """Return the runtime's providers in the order in which an operator's is looked for.

        Raises:
            BundleError: the runtime has no such provider.
        """
        if self is Provider.CPU:
            return [_CPU]
        import onnxruntime  # noqa: PLC0415 - see speech.networks.session

        if _CUDA not in onnxruntime.get_available_providers():
            raise BundleError(
                "PROVIDER=cuda: expected the CUDA build of ONNX Runtime, found the one for CPUs;"
                " use the image variant with CUDA, or set PROVIDER=cpu."
            )
        # Finds the libraries that the packages of NVIDIA have installed.
        onnxruntime.preload_dlls()
        # Recordings have all lengths. An exhaustive search for the fastest convolution, which is
        # the default, would be made for each new one.
        return [(_CUDA, {"cudnn_conv_algo_search": "HEURISTIC"}), _CPU]

    def require_used(self, session: onnxruntime.InferenceSession) -> None:
        """Refuse a session that the runtime has quietly made for the CPU instead.

        Raises:
            BundleError: it has.
        """
        if self is Provider.CUDA and _CUDA not in session.get_providers():
            raise BundleError(
                "PROVIDER=cuda: expected a GPU that ONNX Runtime can use, found none; give the"
                " service a GPU, or set PROVIDER=cpu."
            )
