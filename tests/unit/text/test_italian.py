import pytest

from shared.speech.text.romance_form import RomanceForm
from shared.speech.text.romance_phones import RomancePhones
from shared.speech.text.spoken_form import read_table

FORM = RomanceForm(read_table("it"))
PHONES = RomancePhones(read_table("it"))


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        # Numbers, which agree with what they count.
        ("0, 16, 21, 28, 33, 100, 101, 500", ("zero, sedici, ventuno, ventotto, trentatré, cento, "
         "cento uno, cinquecento")),
        ("1.234.567 persone, 23.000 libri", ("un milione duecento trentaquattromila cinquecento "
         "sessantasette persone, ventitremila libri")),
        ("10 000 o 2 500 000", "diecimila o due milioni cinquecentomila"),
        ("1 litro, 1 ora, 1 libbra, 21 km", "un litro, un' ora, una libbra, ventuno chilometri"),
        ("pagina 1 oppure nell'800", "pagina uno oppure nell'ottocento"),
        ("1.000, 1,234.56", "mille, mille duecento trentaquattro punto cinquantasei"),
        ("3,14, 3,05, 3.14", ("tre virgola quattordici, tre virgola zero cinque, tre punto "
         "quattordici")),
        ("2.000.000.000, 007", "due miliardi, zero zero sette"),
        # Dates and times.
        ("Il 27/11/2026.", "Il ventisette novembre duemila ventisei."),
        ("1/1/26, 27.11.1999", ("primo gennaio duemila ventisei, ventisette novembre mille "
         "novecento novantanove")),
        ("2026-11-27T09:05:00Z", "ventisette novembre duemila ventisei, nove e cinque"),
        ("Il 27 nov. e il 1 gennaio o 1° maggio", ("Il ventisette novembre e il primo gennaio o "
         "primo maggio")),
        ("32/13/2026 e 27/11", "trentadue tredici duemila ventisei e ventisette novembre"),
        ("Alle 14:30, 9:00-17:00.", "Alle quattordici e trenta, nove a diciassette."),
        ("10:05 a.m., 3 pm, 9 pm", "dieci e cinque del mattino, tre del pomeriggio, nove di sera"),
        ("alle 21.15, ore 14.30", "alle ventuno e quindici, ore quattordici e trenta"),
        # Amounts.
        ("12,50 €, 1 €, 21 €, €5", ("dodici euro e cinquanta centesimi, un euro, ventuno euro, "
         "cinque euro")),
        ("0,01 €, US$ 3,99, 31 £", ("un centesimo, tre dollari e novantanove centesimi, trentuno "
         "sterline")),
        ("5 milioni di €, 1 milione €, 20 EUR", ("cinque milioni di euro, un milione di euro, "
         "venti euro")),
        # Signs before numbers, ranges, calculations.
        ("-5 °C, –3 e −2,5", "meno cinque gradi Celsius, meno tre e meno due virgola cinque"),
        ("-5 € e $5-10", "meno cinque euro e cinque a dieci dollari"),
        ("5-10, 5 − 3 = 2", "cinque a dieci, cinque meno tre uguale a due"),
        ("50 %, 2x3, 8 ÷ 2", "cinquanta per cento, due per tre, otto diviso due"),
        ("x² + z³ = 10⁻³", "ics al quadrato più zeta al cubo uguale a dieci alla meno tre"),
        ("½ litro, 1½, 3/4, 2 1/2", "mezzo litro, uno e mezzo, tre quarti, due e mezzo"),
        # Units.
        ("120 km/h, 5 m², 20°, 2,5 GHz, 5G", ("cento venti chilometri per ora, cinque metri "
         "quadrati, venti gradi, due virgola cinque gigahertz, cinque gi")),
        ("1 kg, 3 l, 60 W, 8 GB", "un chilogrammo, tre litri, sessanta watt, otto gigabyte"),
        # Ordinals and Roman numbers.
        ("1º, 2ª, 23º, 25º, 3° piano", ("primo, seconda, ventitreesimo, venticinquesimo, terzo "
         "piano")),
        ("Il XXI secolo, capitolo IV, Luigi XIV, Elisabetta II", ("Il ventunesimo secolo, capitolo "
         "quattro, Luigi quattordicesimo, Elisabetta seconda")),
        # Numbers of telephones and versions, addresses.
        ("Il 333 123 4567, +39 06 1234567 o 3331234567.", ("Il tre tre tre, uno due tre, quattro "
         "cinque sei sette, tre nove, zero sei, uno due tre quattro cinque sei sette o tre tre tre "
         "uno due tre quattro cinque sei sette.")),
        ("2.0.1 e 192.168.1.1", ("due punto zero punto uno e cento novantadue punto cento "
         "sessantotto punto uno punto uno")),
        ("a.b@c.it, www.uno.com/a-b", ("a punto bi chiocciola ci punto it, uno punto com barra a "
         "trattino bi")),
        # Abbreviations, acronyms, signs.
        ("Il Sig. Rossi e la Dott.ssa Bianchi, p.es., ecc.", ("Il signor Rossi e la dottoressa "
         "Bianchi, per esempio, eccetera")),
        ("n. 5, #8, pag. 3, C.so Roma", "numero cinque, numero otto, pagina tre, corso Roma"),
        ("La NATO, il CNR e la UE", "La NATO, il ci enne erre e la u e"),
        ("«Sì» — disse… (bene)", '"Sì", disse. bene,'),
    ],
)  # fmt: skip
def test_numbers_and_signs_are_written_in_words(text: str, spoken: str) -> None:
    assert FORM.write_out(text) == spoken


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("casa, cena, chiesa, ciao", "kˈaza, ʧˈena, kjˈeza, ʧˈao"),
        ("gatto, gente, laghi, giorno", "ɡˈatto, ʤˈente, lˈaɡi, ʤˈorno"),
        ("gli, figlio, gnocchi, scena, sciarpa", "ʎʎi, fˈiʎʎo, ɲɲˈokki, ʃʃˈena, ʃʃˈarpa"),
        ("zero, pizza, azione, sbaglio", "ʣˈero, pˈitʦa, aʦjˈone, zbˈaʎʎo"),
        ("acqua, quando, anche", "ˈakkwa, kwˈando, ˈaŋke"),
        ("città, perché, è, però", "ʧittˈa, perkˈe, ɛ, perˈɔ"),
        ("mio zio, due, lui, suoi", "mˈio ʣˈio, dˈue, lˈuɪ, swˈoɪ"),
        ("musica, medico, amico, felice", "mˈuzika, mˈediko, amˈiko, felˈiʧe"),
        ("prendere, vedere, credere, sapere", "prˈendere, vedˈere, krˈedere, sapˈere"),
        ("tavolo, facile, possibile, telefono", "tˈavolo, fˈaʧile, possˈibile, telˈefono"),
        ("farmacia, tecnologia, pizzeria", "farmaʧˈia, teknoloʤˈia, pitʦerˈia"),
        ("c'è l'acqua, un po' d'olio", "ʧˈɛ lˈakkwa, un pˈo dˈoljo"),
        ("16, 26, 102", "sˈediʧi, ventizˈɛɪ, ʧˈento dˈue"),
    ],
)
def test_letters_and_stress_are_those_of_italian(text: str, symbols: str) -> None:
    assert PHONES.symbols(FORM.write_out(text)) == symbols
