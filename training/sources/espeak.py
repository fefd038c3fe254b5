"""espeak-ng through its library, which tells the time of every phoneme."""

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_PHONEME_EVENT = 7
_SYNCHRONOUS = 2
_PHONEME_EVENTS_IN_IPA = 1 | 2
_RATE, _PITCH, _RANGE = 1, 3, 4
_UTF8 = 1


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


@dataclass(frozen=True)
class EspeakSpeech:
    """Samples (float32), their rate, and (seconds, IPA) of every phoneme's beginning."""

    wave: NDArray[np.float32]
    rate: int
    phonemes: list[tuple[float, str]]


class Espeak:
    """One synthesiser per process: the library keeps global state."""

    def __init__(self, library: str = "libespeak-ng.so.1") -> None:
        self._library = ctypes.CDLL(library)
        self._rate = self._library.espeak_Initialize(_SYNCHRONOUS, 0, None, _PHONEME_EVENTS_IN_IPA)
        if self._rate <= 0:
            raise RuntimeError("espeak-ng could not be started; is espeak-ng-data installed?")
        self._chunks: list[NDArray[np.int16]] = []
        self._phonemes: list[tuple[float, str]] = []
        self._callback = _Callback(self._receive)
        self._library.espeak_SetSynthCallback(self._callback)

    def speak(self, text: str, voice: str, rate: int, pitch: int, pitch_range: int) -> EspeakSpeech:
        """Speaks text with a voice such as ``"en-us+f3"``.

        Raises:
            ValueError: espeak-ng has no such voice.
        """
        self._chunks.clear()
        self._phonemes.clear()
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"espeak-ng has no voice {voice!r}")
        for parameter, value in ((_RATE, rate), (_PITCH, pitch), (_RANGE, pitch_range)):
            self._library.espeak_SetParameter(parameter, value, 0)
        data = text.encode()
        self._library.espeak_Synth(data, len(data) + 1, 0, 1, 0, _UTF8, None, None)
        self._library.espeak_Synchronize()
        samples = np.concatenate(self._chunks) if self._chunks else np.zeros(0, np.int16)
        return EspeakSpeech((samples / 32768).astype(np.float32), self._rate, list(self._phonemes))

    def _receive(self, samples: object, count: int, events: object) -> int:
        if count > 0 and samples:
            self._chunks.append(np.ctypeslib.as_array(samples, (count,)).copy())  # type: ignore[arg-type]
        index = 0
        while events[index].type != 0:  # type: ignore[index]
            event = events[index]  # type: ignore[index]
            if event.type == _PHONEME_EVENT:
                name = event.id.decode("utf-8", "ignore")
                self._phonemes.append((event.sample / self._rate, name))
            index += 1
        return 0


def pronounce(espeak: Espeak, text: str, language: str) -> list[str]:
    """IPA phonemes of a text."""
    speech = espeak.speak(text, language, 160, 50, 50)
    return [symbol for _, symbol in speech.phonemes if symbol and not symbol.startswith("(")]
