"""The families of exported voices, told apart by the names of their inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from importing.files.errors import VoiceFileError
from shared.process.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTRACT = ("phone", "phone_lengths", "pitch", "pitchf", "ds", "rnd", "noise")
"""The inputs of the engine's contract (see `importing.rvc.synthesizer.build`)."""


@dataclass(frozen=True)
class Family:
    """What one tool's exports look like.

    Attributes:
        name: of the tool or the kind.
        marks: the inputs that every one of them has.
        inputs: its inputs, by the contract's names.
        zeros: inputs that are given zeros: where a piece of audio begins, and at which phase.
        lengths: scalar inputs that are given the number of frames.
    """

    name: str
    marks: frozenset[str]
    inputs: Mapping[str, str]
    zeros: frozenset[str] = field(default=frozenset())
    lengths: frozenset[str] = field(default=frozenset())

    @property
    def known(self) -> frozenset[str]:
        """Every input that it may have."""
        return frozenset(self.inputs.values()) | self.zeros | self.lengths


_OFFICIAL = {name: name for name in CONTRACT if name != "noise"}
_VOICE_CHANGER = {
    "phone": "feats",
    "phone_lengths": "p_len",
    "pitch": "pitch",
    "pitchf": "pitchf",
    "ds": "sid",
}

_OFFICIAL_MARKS = frozenset({"phone", "phone_lengths", "ds", "rnd"})
_VOICE_CHANGER_MARKS = frozenset({"feats", "p_len"})

FAMILIES = (
    Family(
        "Voice Avatar",
        _OFFICIAL_MARKS | {"noise"},
        MappingProxyType({name: name for name in CONTRACT}),
    ),
    Family(
        "streaming export",
        _OFFICIAL_MARKS | {"nsf_noise", "phase_in"},
        MappingProxyType({**_OFFICIAL, "noise": "nsf_noise"}),
        zeros=frozenset({"phase_in"}),
    ),
    Family("RVC", _OFFICIAL_MARKS, MappingProxyType(_OFFICIAL)),
    Family(
        "voice-changer fork",
        _VOICE_CHANGER_MARKS | {"skip_head", "return_length"},
        MappingProxyType(_VOICE_CHANGER),
        zeros=frozenset({"skip_head"}),
        lengths=frozenset({"return_length", "formant_length"}),
    ),
    Family("voice-changer", _VOICE_CHANGER_MARKS, MappingProxyType(_VOICE_CHANGER)),
)


def recognise(inputs: frozenset[str]) -> Family:
    """Tell the family of a graph.

    Args:
        inputs: the names of the graph's inputs.

    Raises:
        VoiceFileError: it is of none of them.
    """
    for family in FAMILIES:
        if family.marks <= inputs <= family.known:
            if ("pitch" in inputs) != ("pitchf" in inputs):
                raise VoiceFileError(
                    "expected both of the inputs 'pitch' and 'pitchf' or none, found one."
                )
            return family
    names = ", ".join(quoted(name) for name in sorted(inputs)[:12])
    raise VoiceFileError(
        "expected the inputs of an RVC voice ('phone', 'phone_lengths', 'ds', 'rnd', or 'feats',"
        f" 'p_len', 'sid'), found {names or 'none'}; if there is a .pth of the voice, bring that."
    )
