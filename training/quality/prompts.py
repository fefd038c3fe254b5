"""Closed-set recognition of short English prompts by pocketsphinx."""

from tempfile import NamedTemporaryFile

import numpy as np
import pocketsphinx

from training.features import Floats


class PromptRecogniser:
    """Knows the prompts and tells which of them it hears."""

    def __init__(self, phrases: list[str]) -> None:
        alternatives = " | ".join(sorted(set(phrases)))
        with NamedTemporaryFile("w", suffix=".gram", encoding="utf-8") as grammar:
            grammar.write(f"#JSGF V1.0;\ngrammar prompts;\npublic <prompt> = {alternatives};\n")
            grammar.flush()
            self._decoder = pocketsphinx.Decoder(lm=None, jsgf=grammar.name, loglevel="FATAL")

    def hear(self, wave: Floats) -> str:
        """The prompt that a 16 kHz recording is taken for; empty if none."""
        data = (np.clip(wave, -1, 1) * 32767).astype(np.int16).tobytes()
        self._decoder.start_utt()
        self._decoder.process_raw(data, no_search=False, full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        return hypothesis.hypstr.strip() if hypothesis else ""
