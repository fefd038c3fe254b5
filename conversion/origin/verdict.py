"""Was this made here? What a file's signed statement and its watermark say together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from speech.results.credentials.reading import Credentials
from speech.results.credentials.statement import uses_for_people

if TYPE_CHECKING:
    from collections.abc import Mapping

    from speech.results.credentials.reading import CredentialsFinding
    from speech.results.watermark.detection import Finding


class Verdict(StrEnum):
    """The answer in one word.

    UNCHANGED: made here, and the file is as it was.
    CHANGED: made here, and the file or its statement was changed afterwards.
    COPY: made here; the signed statement is gone, as in most copies.
    SIGNED_BY_OTHERS: no watermark of ours, and a statement of somebody else that holds.
    UNKNOWN: no sign that it was made here.
    """

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    COPY = "copy"
    SIGNED_BY_OTHERS = "signed_by_others"
    UNKNOWN = "unknown"


SENTENCES: Final[Mapping[Verdict, Mapping[str, str]]] = MappingProxyType(
    {
        Verdict.UNCHANGED: {
            "en": "This was made here: it is synthetic speech, and the file is as it was made.",
            "ja": "ここで作られた合成音声です。ファイルは作られたときのままです。",
        },
        Verdict.CHANGED: {
            "en": "This carries our signs, so it is synthetic speech; it was changed afterwards.",
            "ja": "ここの印がある合成音声です。ただし、作られた後に変更されています。",
        },
        Verdict.COPY: {
            "en": "This was made here: it carries our watermark, so it is synthetic speech. Its"
            " signed statement is gone, as in most copies.",
            "ja": "ここの電子透かしがあるので、ここで作られた合成音声です。署名は残っていません。"
            "コピーではよくあることです。",
        },
        Verdict.SIGNED_BY_OTHERS: {
            "en": "We find no watermark of ours. The file carries a valid statement of somebody"
            " else, whom we do not know.",
            "ja": "ここの電子透かしは見つかりません。ほかの人による有効な署名があります。",
        },
        Verdict.UNKNOWN: {
            "en": "We find no sign that this was made here. That does not prove that a person"
            " spoke it: signs can be removed, and others make synthetic speech, too.",
            "ja": "ここで作られたという印は見つかりません。ただし、人の声だという証明には"
            "なりません。印は消すことができ、合成音声はほかでも作られます。",
        },
    }
)
"""Each verdict for people, in English and Japanese."""

_FORBIDDEN: Final = MappingProxyType(
    {
        "en": (" The owner of the voice forbids: ", ", ", "."),
        "ja": ("声の持ち主が禁じている利用は、次のとおりです。", "、", "。"),
    }
)


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found in a file.

    Attributes:
        credentials: its signed statement.
        watermark: what agrees best with the deployment's keys; None if nothing was searched,
            because there is no key, or the sound is silent or too short.
    """

    credentials: CredentialsFinding
    watermark: Finding | None

    @property
    def verdict(self) -> Verdict:
        """The answer in one word."""
        is_marked = self.watermark is not None and self.watermark.is_found
        match self.credentials.state:
            case Credentials.OURS:
                return Verdict.UNCHANGED
            case Credentials.CHANGED | Credentials.INVALID if is_marked:
                return Verdict.CHANGED
            case Credentials.VALID if not is_marked:
                return Verdict.SIGNED_BY_OTHERS
        return Verdict.COPY if is_marked else Verdict.UNKNOWN

    def _sentences(self) -> dict[str, str]:
        """Say the verdict, and what a statement that holds says that the voice's owner forbids."""
        said = dict(SENTENCES[self.verdict])
        if self.verdict is not Verdict.UNCHANGED:
            return said
        for language, (before, between, after) in _FORBIDDEN.items():
            if uses := uses_for_people(self.credentials.forbidden_uses, language):
                said[language] += f"{before}{between.join(uses)}{after}"
        return said

    def to_answer(self) -> dict[str, Any]:
        """Return it as the API answers it."""
        mark = self.watermark
        state = "not_searched" if mark is None else "found" if mark.is_found else "not_found"
        is_found = mark is not None and mark.is_found
        return {
            "verdict": self.verdict.value,
            "sentences": self._sentences(),
            "credentials": asdict(self.credentials) | {"state": self.credentials.state.value},
            "watermark": {
                "state": state,
                "bits": mark.payload if mark is not None and is_found else None,
                "chance": mark.chance if mark is not None and is_found else None,
            },
        }
