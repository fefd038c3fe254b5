from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tools.bundles.consent import QUESTIONS, ask_consent, read_consent
from tools.bundles.files import VoiceFileError

if TYPE_CHECKING:
    from pathlib import Path

ANSWERS: dict[str, Any] = {
    "owner": "Ada Example",
    "consent": "Ada agreed in writing on 2026-11-01 to training, conversion and this service.",
    "licence": "CC-BY-4.0",
    "terms_url": "https://example.org/terms",
    "credit": "Voice: Ada Example",
    "source": "https://example.org/ada.pth",
    "contact": "mailto:ada@example.org",
    "commercial": True,
    "redistribution": False,
    "adult": False,
    "politics": False,
    "no_public_figure_no_minor": True,
}


def written(folder: Path, answers: object) -> Path:
    path = folder / "consent.json"
    path.write_text(json.dumps(answers), "utf-8")
    return path


def test_answers_are_read_from_json_and_toml(tmp_path: Path) -> None:
    consent = read_consent(written(tmp_path, ANSWERS))
    assert (consent.owner, consent.spdx, consent.commercial) == ("Ada Example", "CC-BY-4.0", True)
    path = tmp_path / "consent.toml"
    lines = (f"{name} = {json.dumps(value)}" for name, value in ANSWERS.items())
    path.write_text("\n".join(lines), "utf-8")

    assert read_consent(path).contact == "mailto:ada@example.org"


def test_a_licence_without_identifier_may_have_its_whole_text(tmp_path: Path) -> None:
    answers = ANSWERS | {"licence": "Ada's terms", "licence_text": "You may sing."}

    assert read_consent(written(tmp_path, answers)).spdx == "LicenseRef-voice"


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_answer_may_be_missing(tmp_path: Path, name: str) -> None:
    answers = {key: value for key, value in ANSWERS.items() if key != name}

    with pytest.raises(VoiceFileError, match=f"field '{name}': expected an answer to: "):
        read_consent(written(tmp_path, answers))


@pytest.mark.parametrize(("name", "empty"), [("owner", ""), ("credit", "   "), ("contact", None)])
def test_no_answer_may_be_empty(tmp_path: Path, name: str, empty: str | None) -> None:
    with pytest.raises(VoiceFileError, match=f"field '{name}'"):
        read_consent(written(tmp_path, ANSWERS | {name: empty}))


def test_the_voice_of_a_minor_is_not_imported(tmp_path: Path) -> None:
    with pytest.raises(VoiceFileError, match="a voice of a minor"):
        read_consent(written(tmp_path, ANSWERS | {"no_public_figure_no_minor": False}))


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000, b"[]", b'{"x": 1}'])
def test_a_file_that_is_no_answer_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "consent.json"
    path.write_bytes(content)

    with pytest.raises(VoiceFileError, match=r"consent\.json"):
        read_consent(path)


@pytest.mark.parametrize(
    ("key", "line"), [("a." * 50_000 + "a", "{} = 1"), ("'a' . " * 40_000 + "a", "[[{}]]")]
)
def test_a_key_of_very_many_parts_is_not_parsed(
    tmp_path: Path, key: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Parsing it would take minutes.
    monkeypatch.setattr("tomllib.loads", lambda _: pytest.fail("it was parsed"))
    path = tmp_path / "consent.toml"
    path.write_text(line.format(key), "utf-8")

    with pytest.raises(VoiceFileError, match="keys of very many parts"):
        read_consent(path)


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_a_text_may_have_as_many_dots_as_it_likes(tmp_path: Path, quotes: str) -> None:
    path = tmp_path / "consent.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in ANSWERS.items()]
    text = "You may sing. " * 1_500
    path.write_text("\n".join([f"licence_text = {quotes}\n{text}{quotes}", *lines]), "utf-8")

    assert read_consent(path).licence_text == text.strip()


def test_an_answer_that_stays_wrong_is_refused() -> None:
    with pytest.raises(VoiceFileError, match="field 'owner': expected an answer to"):
        ask_consent(lambda _question: "")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(VoiceFileError, match=r"consent\.json: expected a readable file"):
        read_consent(tmp_path / "consent.json")


def test_a_wrong_answer_is_asked_for_again_with_an_example() -> None:
    asked: list[str] = []
    wrong = iter(["", "ftp://x", "ada at example"])

    def ask(question: str) -> str:
        asked.append(question)
        name = next(key for key, value in QUESTIONS.items() if question.endswith(value))
        if name == "contact":
            return next(wrong, "ada@example.org")
        return {True: "yes", False: "no"}.get(ANSWERS[name]) or str(ANSWERS[name])

    assert ask_consent(ask).contact == "mailto:ada@example.org"
    again = [question for question in asked if question.startswith("This cannot be used")]
    assert len(again) == 3
    assert all("for example: ada@example.org" in question for question in again)


def test_answers_are_kept_for_whoever_stops(tmp_path: Path) -> None:
    draft = tmp_path / "consents" / "ada.json"

    def stop(question: str) -> str:
        if question == QUESTIONS["contact"]:
            raise KeyboardInterrupt
        return answered(question)

    with pytest.raises(KeyboardInterrupt):
        ask_consent(stop, draft)
    asked = []

    def go_on(question: str) -> str:
        asked.append(question)
        return answered(question)

    consent = ask_consent(go_on, draft)

    assert asked == list(QUESTIONS.values())[6:]
    assert consent.model_dump(exclude_none=True) == ANSWERS
    assert not draft.exists()


def test_a_private_voice_needs_no_web_address_and_allows_nothing() -> None:
    asked = []

    def ask(question: str) -> str:
        asked.append(question)
        return "Private" if question == QUESTIONS["licence"] else answered(question)

    consent = ask_consent(ask)

    assert QUESTIONS["terms_url"] not in asked
    assert QUESTIONS["commercial"] not in asked
    assert (consent.terms_url, consent.spdx) == (None, "LicenseRef-private")
    assert not any((consent.commercial, consent.redistribution, consent.adult, consent.politics))


def answered(question: str) -> str:
    name = next(key for key, value in QUESTIONS.items() if value == question)
    return {True: "yes", False: "no"}.get(ANSWERS[name]) or str(ANSWERS[name])
