"""From English text to the symbols that Kokoro speaks English from.

espeak-ng finds the phones. Kokoro writes diphthongs as one capital letter, affricates as one sign,
and no length.
"""

import re
import subprocess

_SYMBOLS = (
    *(("eɪ", "A"), ("aɪ", "I"), ("oʊ", "O"), ("aʊ", "W"), ("ɔɪ", "Y")),
    *(("tʃ", "ʧ"), ("dʒ", "ʤ"), ("ɜː", "ɜɹ"), ("ɚ", "əɹ"), ("r", "ɹ"), ("ɹɹ", "ɹ"), ("ɐ", "ə")),
    *(("ʔ", "t"), ("x", "k"), ("g", "ɡ"), ("o", "ɔ"), ("e", "A"), ("ː", "")),
)
_SIGNS = re.compile(r"([,.!?;])")


def english_symbols(text: str) -> str:
    """Write an English text as Kokoro's symbols.

    Raises:
        FileNotFoundError: espeak-ng is not installed.
        subprocess.CalledProcessError: it fails.
    """
    written = ""
    for piece in map(str.strip, _SIGNS.split(text)):
        if _SIGNS.fullmatch(piece):
            written += piece
        elif piece:
            written += (" " if written else "") + _phones(piece)
    return written


def _phones(text: str) -> str:
    command = ["espeak-ng", "-q", "--ipa", "-v", "en-us"]
    spoken = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    phones = " ".join(spoken.stdout.split())
    for given, symbol in _SYMBOLS:
        phones = phones.replace(given, symbol)
    return phones
