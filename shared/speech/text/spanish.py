"""Spanish: its words for numbers and signs, and the sounds of its letters in Castile, with [θ]."""

import re
from typing import Final

from shared.speech.text.latin_form import words_of
from shared.speech.text.romance_form import RomanceForm, Scale
from shared.speech.text.romance_phones import RomancePhones, compiled
from shared.speech.text.spoken_form import read_pairs

_SMALL = words_of("""
        cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince
        dieciséis diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés
        veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve
    """)
_TENS = words_of("treinta cuarenta cincuenta sesenta setenta ochenta noventa")
_HUNDREDS = "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos"
_HUNDREDS += " ochocientos novecientos"
_FEMININE = re.compile(
    r"(?<!dí)(?<![ltoi]em)(?<!gram)(?<!iom)(?:as?|[cs]i[óo]n(?:es)?|[dt]ad(?:es)?)$"
)


def agree(numeral: str, noun: str) -> str:
    """Give a numeral its form before a noun, or before thousands: veintiún mil, una hora."""
    if noun and numeral.endswith(("llón", "llones")):
        return f"{numeral} de"
    if _FEMININE.search(noun.partition(" ")[0]):
        return re.sub("uno$", "una", re.sub(r"(cien|quinien)tos\b", r"\1tas", numeral))
    return re.sub("uno$", "un", numeral.replace("veintiuno", "veintiún"))


def plural(noun: str) -> str:
    counted, per, rest = noun.partition(" por ")
    words = counted.split()
    ends = ["" if not word.islower() else "s" if word[-1] in "aeiou" else "es" for word in words]
    return " ".join(map(str.__add__, words, ends)) + per + rest


FORM: Final = RomanceForm(
    under_hundred=[
        *_SMALL,
        *(f"{ten} y {one}" if one != "cero" else ten for ten in _TENS for one in _SMALL[:10]),
    ],
    hundreds=["", *_HUNDREDS.split()],
    scales=(
        Scale(10**12, "un billón", " billones"),
        Scale(10**6, "un millón", " millones"),
        Scale(10**3, "mil", " mil"),
    ),
    agree=agree,
    plural=plural,
    ordinals=words_of("primero segundo tercero cuarto quinto sexto séptimo octavo noveno décimo"),
    further_ordinal=str,
    parts=words_of("- - medio tercio cuarto quinto sexto séptimo octavo noveno décimo"),
    months=words_of("""
        enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
    """),
    words=read_pairs("""
        100 cien  minus menos  point punto  comma coma  and y  of de  date _de_  to a  by por
        cents con  dot punto  at arroba  slash barra  dash guion  number número  hash almohadilla
        squared al_cuadrado  cubed al_cubo  power a_la  am de_la_mañana  pm de_la_tarde
        evening de_la_noche  names 10  others para_con_por_que_más_como_desde_hasta_pero
    """),
    currencies=read_pairs("""
        € euro/céntimo  $ dólar/centavo  £ libra/penique  ¥ yen  ₩ won  ₹ rupia  ₣ franco_suizo
    """),
    units=read_pairs("""
        km/h kilómetro_por_hora  m/s metro_por_segundo  km kilómetro  m metro  cm centímetro
        mm milímetro  kg kilogramo  g gramo  mg miligramo  l litro  ml mililitro  cl centilitro
        h hora  min minuto  s segundo  ms milisegundo  t tonelada  ha hectárea  kb kilobyte
        mb megabyte  gb gigabyte  tb terabyte  hz hercio  khz kilohercio  mhz megahercio
        ghz gigahercio  w vatio  kw kilovatio  mw megavatio  kwh kilovatio_hora  v voltio
        kcal kilocaloría  db decibelio  m2 metro_cuadrado  km2 kilómetro_cuadrado
        m3 metro_cúbico  cm3 centímetro_cúbico  mbps megabit_por_segundo  °c grado_Celsius
        °f grado_Fahrenheit  ° grado  hpa hectopascal  px píxel  mi milla
    """),
    signs=read_pairs("""
        & y  @ arroba  + más  = es_igual_a  % por_ciento  ‰ por_mil  × por  ÷ entre
        ± más_menos  § sección  ≈ aproximadamente  < menor_que  > mayor_que
    """),
    abbreviations=read_pairs("""
        Sr. señor  Sra. señora  Srta. señorita  Sres. señores  Dr. doctor  Dra. doctora  D. don
        Dña. doña  D.ª doña  Prof. profesor  Ud. usted  Uds. ustedes  Vd. usted  etc. etcétera
        p._ej. por_ejemplo  p.ej. por_ejemplo  pág. página  págs. páginas  núm. número
        Av. avenida  Avda. avenida  C/ calle  tel. teléfono  Tel. teléfono  tfno. teléfono
        aprox. aproximadamente  EE._UU. Estados_Unidos  EE.UU. Estados_Unidos  EEUU Estados_Unidos
        a._C. antes_de_Cristo  d._C. después_de_Cristo  S.A. S_A  vs. contra  cap. capítulo
        vol. volumen  art. artículo  Ing. ingeniero  Lic. licenciado  Sto. santo  Sta. santa
        JJ._OO. Juegos_Olímpicos  n.o número  no. número
    """),
    letters=read_pairs("""
        A a  B be  C ce  D de  E e  F efe  G ge  H hache  I i  J jota  K ka  L ele  M eme  N ene
        Ñ eñe  O o  P pe  Q cu  R erre  S ese  T te  U u  V uve  W uve_doble  X equis  Y i_griega
        Z zeta
    """),
    before_clock="las|la",
    numbered="siglo|capítulo|tomo|página|número|versión|artículo|nivel|canal|planta|parte|fase",
    after_roman="Guerra|Centenario|Congreso|Edición|edición|aniversario|República",
    telephone=r"[6-9]\d{8}",
    scales_of_amounts="mil|millón|mil millones|millones|billones",
    further=(
        (r"(?<!\w)(?:n\.?[oº°]|N\.?[oº°]|#)\.?\s?(?=\d)", "número "),
        (r"\b([13])\.?er\b", lambda found: "primer" if found[1] == "1" else "tercer"),
        (r"(?<=\d)[rdtmvn](?=[oa]\b)", ""),
    ),
)

PHONES: Final = RomancePhones(
    spelling=compiled(r"(?<=m[eé])x(?=ic) j  (?<=g)ü(?=[eéií]) w  ü u"),
    sounds=compiled(r"""
        ^x s  x ks  ch ʧ  ll ʝ  rr R  qu(?=[eéií]) k  gu(?=[eéií]) ɡ  c(?=[eéií]) θ  z θ  c k
        g(?=[eéií]) x  j x  ñ ɲ  h -  v b  ^y$ i  y(?=[aeiouáéíóú]) ʝ  y i  (?<=[lnsθ])r|^r R
        g ɡ  q k
    """),
    allophones=compiled(r"""
        (?<=[aeiouɾsθjwɪʊˈr])d ð  (?<=[aeioulɾsθjwɪʊˈr])b β  (?<=[aeioulɾsθjwɪʊˈr])ɡ ɣ
        r ɾ  R r  n(?=[kɡx]) ŋ  n(?=[bp]) m
    """),
    letters="abcdefghijklmnopqrstuvwxyzáéíóúüñ",
    stressed_last=re.compile("[^aeiouns]$"),
    weak_words=frozenset(
        words_of("""
        el la los las un una unos unas de del a al en y e o u que con por para se me te le lo nos
        su sus mi mis tu tus es no si sin sobre como
    """)
    ),
)
