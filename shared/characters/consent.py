"""The sentence with which an owner gives consent aloud: today's date and four random words.

Nobody has a recording of it beforehand, so its speaker consents now. It needs no packages: the
command shows it at the terminal, and the page in the browser.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Language = Literal["en", "ja", "fr", "es", "de", "it"]

HOLDS_DAYS: Final = 7  # the days after it was drawn on which a sentence may be spoken
_WORDS_DRAWN: Final = 4
# Common words of two syllables or more, none of which sounds like another.
_ENGLISH: Final = """
apple basket butter button candle carpet castle chicken coffee cookie cotton dinner
doctor elephant finger flower forest garden hammer island jacket kitchen ladder lemon
letter market mirror monkey mountain music number orange paper pencil pepper picture
pillow pocket potato rabbit river saddle school shoulder silver spider summer table
teacher tiger tomato tower umbrella village water window winter yellow
"""
_JAPANESE: Final = """
りんご みかん さくら うさぎ たまご つくえ とけい ぼうし かばん めがね でんわ
くるま ひこうき じてんしゃ えんぴつ てぶくろ かいだん だいどころ ともだち
せんせい がっこう びょういん としょかん ゆうびん こうえん しんぶん おんがく
ひまわり たんぽぽ かたつむり にわとり きつね たぬき ペンギン パンダ ピアノ
ギター カメラ トマト バナナ レモン スプーン ハンカチ ポケット カレンダー
みずうみ かみなり ゆきだるま おにぎり やきいも
"""
_FRENCH: Final = """
abeille avion ballon banane bateau bouteille bureau cadeau café camion cerise chapeau
château cheval citron coffre couteau cuisine dimanche école éléphant étoile fenêtre
forêt fromage girafe jardin journal lapin légume lunettes maison manteau miroir montagne
musique oiseau orange panier papier pomme poisson rivière rideau salade serpent soleil
tambour tomate voiture
"""
_SPANISH: Final = """
abeja amigo arena árbol avión ballena barco botella caballo cabeza camino camisa canción
castillo cebolla ciudad cocina conejo cuchara dinero elefante escuela espejo estrella
familia ferrocarril flores fresa fuego gallina guitarra hermano hospital invierno jardín
lámpara libro limón manzana martillo mercado montaña naranja pájaro palabra pelota
sombrero tomate ventana zapato
"""
_GERMAN: Final = """
Ameise Apfel Banane Blume Brücke Butter Dampfer Eimer Elefant Ente Erdbeere Fahrrad
Fenster Feuer Flasche Garten Gabel Giraffe Gitarre Hammer Himmel Igel Insel Jacke
Kaffee Kamel Kartoffel Kirche Koffer Kuchen Lampe Löffel Mantel Messer Muschel Nagel
Orange Papier Pinsel Rakete Regen Schere Schule Sommer Spiegel Tasche Tomate Wasser
Winter Zitrone
"""
_ITALIAN: Final = """
albero amico ananas arancia balena bambino barca biblioteca bicicletta bottiglia
camicia cane cappello castello cavallo cipolla coltello cucina delfino elefante estate
farfalla finestra fiore foresta formaggio fragola fuoco gelato giardino giornale
lampada libro limone martello matita mercato montagna musica nuvola ombrello pallone
pesce pomodoro quaderno scuola specchio stella tavolo zucchero
"""
_WORDS: Final[Mapping[Language, Sequence[str]]] = MappingProxyType(
    {
        "en": _ENGLISH.split(),
        "ja": _JAPANESE.split(),
        "fr": _FRENCH.split(),
        "es": _SPANISH.split(),
        "de": _GERMAN.split(),
        "it": _ITALIAN.split(),
    }
)
_MONTHS: Final[Mapping[Language, str]] = MappingProxyType(
    {
        "en": "January February March April May June July August September October November"
        " December",
        "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre"
        " décembre",
        "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre"
        " diciembre",
        "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre"
        " novembre dicembre",
    }
)
_DATES: Final[Mapping[Language, str]] = MappingProxyType(
    {
        "en": "{month} {day}, {year}",
        "ja": "{year}年{number}月{day}日",
        "fr": "{day} {month} {year}",
        "es": "{day} de {month} de {year}",
        "de": "{day}. {month} {year}",
        "it": "{day} {month} {year}",
    }
)
_SENTENCES: Final[Mapping[Language, str]] = MappingProxyType(
    {
        "en": "Today is {date}. I agree that a synthetic voice is made of my recordings. {words}.",
        "ja": "今日は{date}です。わたしの録音から、合成音声を作ることに同意します。{words}。",
        "fr": "Nous sommes le {date}. J'accepte qu'une voix de synthèse soit créée à partir de mes"
        " enregistrements. {words}.",
        "es": "Hoy es {date}. Acepto que se cree una voz sintética a partir de mis grabaciones."
        " {words}.",
        "de": "Heute ist der {date}. Ich bin damit einverstanden, dass aus meinen Aufnahmen eine"
        " synthetische Stimme erstellt wird. {words}.",
        "it": "Oggi è il {date}. Acconsento alla creazione di una voce sintetica a partire dalle"
        " mie registrazioni. {words}.",
    }
)


@dataclass(frozen=True, slots=True)
class ConsentSentence:
    language: Language
    day: dt.date
    words: tuple[str, ...]

    @property
    def month(self) -> str:
        """The month's name; Japanese has a number."""
        return _MONTHS[self.language].split()[self.day.month - 1]

    @property
    def date(self) -> str:
        # French and Italian have a word for the first day.
        first = {"fr": "1er", "it": "1º"}.get(self.language, "1")
        return _DATES[self.language].format(
            day=first if self.day.day == 1 else self.day.day,
            month="" if self.language == "ja" else self.month,
            number=self.day.month,
            year=self.day.year,
        )

    @property
    def text(self) -> str:
        words = ("、" if self.language == "ja" else ", ").join(self.words)
        return _SENTENCES[self.language].format(date=self.date, words=words[:1].upper() + words[1:])

    def holds_on(self, day: dt.date) -> bool:
        return dt.timedelta() <= day - self.day <= dt.timedelta(days=HOLDS_DAYS)

    @property
    def last_day(self) -> dt.date:
        return self.day + dt.timedelta(days=HOLDS_DAYS)

    def to_json(self) -> str:
        return json.dumps(
            {"language": self.language, "day": self.day.isoformat(), "words": self.words},
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the JSON of `to_json`; ValueError if it is none."""
        try:
            said = json.loads(text)
            words = tuple(map(str, said["words"]))
            language, day = said["language"], dt.date.fromisoformat(said["day"])
        except (KeyError, TypeError) as error:
            raise ValueError("expected a sentence of a spoken consent") from error
        if language not in _WORDS or len(words) != _WORDS_DRAWN:
            raise ValueError("expected a sentence of a spoken consent")
        return cls(language, day, words)


def draw_sentence(language: Language, day: dt.date) -> ConsentSentence:
    """Draw a sentence that nobody can predict."""
    words = random.SystemRandom().sample(_WORDS[language], _WORDS_DRAWN)
    return ConsentSentence(language, day, tuple(words))
