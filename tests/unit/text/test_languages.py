import pytest

from shared.speech.text.front_end import Reader
from shared.speech.text.languages import Run, Unread, divide, is_rare_kanji, language_code
from shared.voices.voice import EnglishWords

ENGLISH = EnglishWords.ENGLISH


def runs(text: str, **options: object) -> str:
    """Write the runs of a text as `en:Hello. |ja:はい。`."""
    found = divide(text, **options).runs  # type: ignore[arg-type] # of the cases below
    return "|".join(f"{run.language}:{run.text}" for run in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello there. 元気ですか。Fine!", "en:Hello there. |ja:元気ですか。|en:Fine!"),
        ("今日はPythonを学ぶ。", "ja:今日はPythonを学ぶ。"),
        ("I went to 東京 on 3/4.", "en:I went to |ja:東京 |en:on 3/4."),
        ("It is late. 22:30.", "en:It is late. 22:30."),
        ("22:30. It is late.", "en:22:30. It is late."),
        ("123", "ja:123"),
        ("ＨＥＬＬＯ", "en:ＨＥＬＬＯ"),
        ("東京大学", "ja:東京大学"),
        ("Olá", "en:Olá"),
        ("Microsoft Officeを3台に", "ja:Microsoft Officeを3台に"),
        ("john.smith@example.comまで", "ja:john.smith@example.comまで"),
        ("I ate すし today.", "en:I ate |ja:すし |en:today."),
        ("50㎞、3㎏", "ja:50㎞、3㎏"),
        ("It is 50㎞ away.", "en:It is 50㎞ away."),
        ("", ""),
        (
            "¿Qué tal? Fine, and you? Hasta luego.",
            "es:¿Qué tal? |en:Fine, and you? |es:Hasta luego.",
        ),
        ("Buenos días. Llueve. Son las 14:30.", "es:Buenos días. Llueve. Son las 14:30."),
        ("Escribe 東京 en la carta.", "es:Escribe |ja:東京 |es:en la carta."),
        ("今日は。¡Hola! Vamos a la playa.", "ja:今日は。|es:¡Hola! Vamos a la playa."),
        ("¿QUIÉN ES EL SEÑOR?", "es:¿QUIÉN ES EL SEÑOR?"),
        ("Ciao. Come stai? Oggi è bello.", "it:Ciao. Come stai? Oggi è bello."),
        ("Il treno è in ritardo. ¿Y el autobús?", "it:Il treno è in ritardo. |es:¿Y el autobús?"),
        ("Ciao", "en:Ciao"),
        (
            "Que horas são? It is late. Você tem R$ 5?",
            "pt:Que horas são? |en:It is late. |pt:Você tem R$ 5?",
        ),
        ("Il treno costa 12,50 €.", "it:Il treno costa 12,50 €."),
        ("In Roma we ate pasta al dente con gusto.", "en:In Roma we ate pasta al dente con gusto."),
        ("Gracias", "en:Gracias"),
        ("Los Angeles and Las Vegas", "en:Los Angeles and Las Vegas"),
        ("The piñata is in El Paso.", "en:The piñata is in El Paso."),
        ("José ordered a café con leche.", "en:José ordered a café con leche."),
        ("sha256:8a032e8d8ebc73dec079364b9b4a68", "en:sha256:8a032e8d8ebc73dec079364b9b4a68"),
    ],
)
def test_sentences_have_the_language_of_their_script(text: str, expected: str) -> None:
    assert runs(text) == expected


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("Hello. はい。", {"reads": ("ja",)}, "ja:Hello. はい。"),
        ("OK.", {"language": "ja"}, "ja:OK."),
        ("123", {"language": "en"}, "en:123"),
        ("東京", {"language": "en"}, "ja:東京"),
        ("Il gatto e la casa.", {"language": "es"}, "es:Il gatto e la casa."),
        ("Hola, ¿qué tal?", {"language": "en"}, "en:Hola, ¿qué tal?"),
        ("Gracias", {"language": "es"}, "es:Gracias"),
        (
            "今日はPython 3.12を学ぶ。",
            {"english_words": ENGLISH},
            "ja:今日は|en:Python |ja:3.12を学ぶ。",
        ),
        ("速度は100Mbpsです。", {"english_words": ENGLISH}, "ja:速度は100Mbpsです。"),
    ],
)
def test_a_client_decides_on_the_language_and_on_english_words(
    text: str, options: dict[str, object], expected: str
) -> None:
    assert runs(text, **options) == expected


@pytest.mark.parametrize(
    ("text", "read", "unread"),
    [
        (
            "こんにちは。안녕하세요。さようなら。",
            "こんにちは。。さようなら。",
            [("안녕하세요", "Korean")],
        ),
        ("おはよう。Привет, мир! 終わり", "おはよう。! 終わり", [("Привет, мир", "Cyrillic")]),
        ("Hello สวัสดี world.", "Hello  world.", [("สวัสดี", "Thai")]),
        ("你好，世界。はい。", "はい。", [("你好，世界。", "Chinese")]),
        ("这是测试", "", [("这是测试", "Chinese")]),
        (
            "Das ist nicht der richtige Weg. OK?",
            "OK?",
            [("Das ist nicht der richtige Weg.", "German")],
        ),
        ("Je ne sais pas, c'est la vie.", "", [("Je ne sais pas, c'est la vie.", "French")]),
        ("She said: c'est la vie.", "She said: c'est la vie.", []),
        ("Els nens juguen al parc.", "", [("Els nens juguen al parc.", "Catalan")]),
        ("¡Hola! Het is een mooie dag.", "¡Hola! ", [("Het is een mooie dag.", "Dutch")]),
        ("ελ ʰ Ω ½ ①", "ελ ʰ Ω ½ ①", []),
        ("山﨑、𩸽、𠮷野家", "山崎、𩸽、吉野家", []),
        ("墸の字", "の字", [("墸", "rare kanji")]),
        ("<p>안녕</p>はい", "、、はい", [("안녕", "Korean")]),
    ],
)
def test_what_no_voice_reads_is_named_and_the_rest_is_kept(
    text: str, read: str, unread: list[tuple[str, str]]
) -> None:
    division = divide(text)

    assert division.text == read
    assert division.unread == tuple(Unread(*each) for each in unread)


@pytest.mark.parametrize("first", [0x3400, 0x4E00, 0x7A00, 0x20000, 0x2A800, 0x30000])
def test_kanji_are_rare_that_the_dictionary_does_not_read(reader: Reader, first: int) -> None:
    for code in range(first, first + 7_000, 97):
        words = reader.read(f"あ{chr(code)}").words
        is_read = any(word.text != "あ" and word.reading != "、" for word in words)
        assert is_rare_kanji(chr(code)) != is_read or not chr(code).isalpha(), hex(code)


@pytest.mark.parametrize(
    ("tag", "code"), [("en-US", "en"), ("JA_jp", "ja"), ("eng", "en"), (" de ", "de")]
)
def test_tags_of_languages_are_shortened(tag: str, code: str) -> None:
    assert language_code(tag) == code


def test_what_the_voice_does_not_read_is_named() -> None:
    division = divide("¿Dónde está la playa? Here.", reads=("ja", "en"))

    assert division.runs == (Run("Here.", "en"),)
    assert division.unread_names == "Spanish"


def test_all_of_a_long_text_is_in_its_runs() -> None:
    text = "This is 1 test, 東京. これはtestです! " * 500

    assert divide(text, english_words=ENGLISH).text == text
    assert divide(text).runs[0] == Run("This is 1 test, ", "en")
