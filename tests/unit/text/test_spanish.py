import time

import pytest

from shared.speech.text.romance_form import RomanceForm
from shared.speech.text.romance_phones import RomancePhones
from shared.speech.text.spoken_form import read_table

FORM = RomanceForm(read_table("es"))
PHONES = RomancePhones(read_table("es"))


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        # Numbers, which agree with what they count.
        ("0, 16, 22, 31, 100, 101, 500", ("cero, dieciséis, veintidós, treinta y uno, cien, "
         "ciento uno, quinientos")),
        ("1.234.567 personas, 21 libros", ("un millón doscientas treinta y cuatro mil quinientas "
         "sesenta y siete personas, veintiún libros")),
        ("10 000 o 2 500 000", "diez mil o dos millones quinientos mil"),
        ("21.000 kg y 31 km", "veintiún mil kilogramos y treinta y un kilómetros"),
        ("200 habitaciones, 1 hora, 1 día", "doscientas habitaciones, una hora, un día"),
        ("En 2001 muchas personas", "En dos mil uno muchas personas"),
        ("página 1 para", "página uno para"),
        ("1,234.56 y 1,234,567", ("mil doscientos treinta y cuatro punto cincuenta y seis y un "
         "millón doscientos treinta y cuatro mil quinientos sesenta y siete")),
        ("3,14, 3,05, 3.14, 0,001", ("tres coma catorce, tres coma cero cinco, tres punto catorce, "
         "cero coma cero cero uno")),
        ("007", "cero cero siete"),
        ("10000000000000000", "uno" + " cero" * 16),
        # Dates and times.
        ("El 27/11/2026.", "El veintisiete de noviembre de dos mil veintiséis."),
        ("27-11-26, 27.11.1999", ("veintisiete de noviembre de dos mil veintiséis, veintisiete de "
         "noviembre de mil novecientos noventa y nueve")),
        ("2026-11-27T09:05:00Z", "veintisiete de noviembre de dos mil veintiséis, nueve y cinco"),
        ("El 27 nov. y el 1 de enero.", "El veintisiete de noviembre y el uno de enero."),
        ("32/13/2026 y 27/11", "treinta y dos trece dos mil veintiséis y veintisiete de noviembre"),
        ("A las 14:30, 9:00-17:00, 21:15 h.", ("A las catorce y treinta, nueve a diecisiete, "
         "veintiuna y quince.")),
        ("10:05 a.m., 3 p. m., 9 pm", ("diez y cinco de la mañana, tres de la tarde, nueve de la "
         "noche")),
        ("las 21.15 o 14.30 h", "las veintiuna y quince o catorce y treinta"),
        ("Ganó 2:1 o 99:99", "Ganó dos a uno o noventa y nueve a noventa y nueve"),
        # Amounts.
        ("12,50 €, 1 €, 21 €, €5", ("doce euros con cincuenta céntimos, un euro, veintiún euros, "
         "cinco euros")),
        ("0,50 €, US$ 3,99, 31 £", ("cincuenta céntimos, tres dólares con noventa y nueve "
         "centavos, treinta y una libras")),
        ("5 millones de €, 1 millón €, 20 EUR", ("cinco millones de euros, un millón de euros, "
         "veinte euros")),
        ("-5 € y $5-10", "menos cinco euros y cinco a diez dólares"),
        # Signs before numbers, ranges, calculations.
        ("-5 °C, –3 y −2,5", "menos cinco grados Celsius, menos tres y menos dos coma cinco"),
        ("5-10, 5 − 3 = 2, 7-2=5", ("cinco a diez, cinco menos tres es igual a dos, siete menos "
         "dos es igual a cinco")),
        ("50 %, 5 ‰, 2x3, 8 ÷ 2", ("cincuenta por ciento, cinco por mil, dos por tres, ocho entre "
         "dos")),
        ("x² + y³ = 10⁻³", "equis al cuadrado más y al cubo es igual a diez a la menos tres"),
        ("½ litro, 1½, 3/4, 2 1/2", "medio litro, uno y medio, tres cuartos, dos y medio"),
        # Units.
        ("120 km/h, 5 m², 20°, 2,5 GHz, 5G", ("ciento veinte kilómetros por hora, cinco metros "
         "cuadrados, veinte grados, dos coma cinco gigahercios, cinco ge")),
        ("1 kg, 1 h, 3 l, 60 W", "un kilogramo, una hora, tres litros, sesenta vatios"),
        # Ordinals and Roman numbers.
        ("1.º, 2.ª, 3er, 5to, 25.º", "primero, segunda, tercer, quinto, veinticinco"),
        ("El siglo XXI, capítulo IV, Felipe VI, Isabel II, Luis XIV", ("El siglo veintiuno, "
         "capítulo cuatro, Felipe sexto, Isabel segunda, Luis catorce")),
        ("la II Guerra Mundial", "la segunda Guerra Mundial"),
        # Numbers of telephones and versions, addresses.
        ("Llama al 600 123 456, +34 91 123 45 67 o 612345678.", ("Llama al seis cero cero, uno dos "
         "tres, cuatro cinco seis, tres cuatro, nueve uno, uno dos tres, cuatro cinco, seis siete "
         "o seis uno dos tres cuatro cinco seis siete ocho.")),
        ("2.0.1 y 192.168.1.1", ("dos punto cero punto uno y ciento noventa y dos punto ciento "
         "sesenta y ocho punto uno punto uno")),
        ("a.b@c.es, www.uno.com/a-b", ("a punto be arroba ce punto es, uno punto com "
         "barra a guion be")),
        # Abbreviations, acronyms, signs.
        ("El Sr. Pérez y la Dra. Gil, p. ej., EE. UU.", ("El señor Pérez y la doctora Gil, por "
         "ejemplo, Estados Unidos")),
        ("n.º 5, #8, pág. 3, C/ Mayor", "número cinco, número ocho, página tres, calle Mayor"),
        ("La ONU, el DNI y la UE", "La ONU, el de ene i y la u e"),
        ("¿Qué tal? ¡Hola! «Sí» — dijo… (bien)", 'Qué tal? Hola! "Sí", dijo. bien,'),
        ("R&B, A4, 50% #hola", "erre y be, A cuatro, cincuenta por ciento almohadilla hola"),
    ],
)  # fmt: skip
def test_numbers_and_signs_are_written_in_words(text: str, spoken: str) -> None:
    assert FORM.write_out(text) == spoken


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("Buenos días, ¿cómo estás?", "bwˈenos dˈias, kˈomo estˈas?"),
        ("cigüeña, guerra, agua, gente", "θiɣwˈeɲa, ɡˈera, ˈaɣwa, xˈente"),
        ("perro, pero, rosa, alrededor", "pˈero, pˈeɾo, rˈosa, alreðeðˈoɾ"),
        ("queso, zapato, cine, casa", "kˈeso, θapˈato, θˈine, kˈasa"),
        ("llave, yo, rey, y", "ʝˈaβe, ʝˈo, rˈeɪ, i"),
        ("examen, xilófono, México, taxi", "eksˈamen, silˈofono, mˈexiko, tˈaksi"),
        ("Madrid, reloj, jóvenes", "maðɾˈið, relˈox, xˈoβenes"),
        ("hacia, hacía, ciudad, país", "ˈaθja, aθˈia, θjuðˈað, paˈis"),
        ("un banco, un vaso", "un bˈaŋko, un bˈaso"),
        ("niño über ça", "nˈiɲo uβˈeɾ kˈa"),
    ],
)
def test_letters_have_the_sounds_of_castile(text: str, symbols: str) -> None:
    assert PHONES.symbols(FORM.write_out(text)) == symbols


@pytest.mark.parametrize(
    "text", ["1" * 2_000, "1." * 1_000, "a" * 2_000, "1 000 " * 333, "27/11/" * 333, "€1" * 1_000]
)
def test_no_text_takes_long_to_write_out(text: str) -> None:
    begun = time.process_time()
    PHONES.symbols(FORM.write_out(text))

    assert time.process_time() - begun < 1.0
