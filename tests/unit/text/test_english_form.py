import time
from collections.abc import Callable

import pytest

from shared.speech.text.english_form import cardinal, ordinal, write_out, year


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Dr. Lee, 1,234 books", "Doctor Lee, one thousand two hundred thirty four books"),
        ("It cost $3.50, or £1, or €0.99.",
         "It cost three dollars and fifty cents, or one pound, or ninety nine cents."),
        ("$3 million, €2.5bn, ¥500",
         "three million dollars, two point five billion euros, five hundred yen"),
        ("$5M or ₹1.50", "five million dollars or one rupee and fifty paise"),
        ("On 2026-11-27.", "On November twenty seventh, twenty twenty six."),
        ("On 12/25/2001.", "On December twenty fifth, two thousand one."),
        ("On 31/12/2010.", "On December thirty first, twenty ten."),
        ("July 4, 1776 and 27 November",
         "July fourth, seventeen seventy six and twenty seventh of November"),
        ("At 7:45 p.m. or 10:05 or 9am.", "At seven forty five P M or ten oh five or nine A M."),
        ("Mr Fox and Prof Lee at 10.30 a.m.", "Mister Fox and Professor Lee at ten thirty A M."),
        ("At 10:00 and 14:00.", "At ten o'clock and fourteen hundred."),
        ("-5°C and 70°F", "minus five degrees Celsius and seventy degrees Fahrenheit"),
        ("5-10 people, the 4-2 win", "five to ten people, the four to two win"),
        ("1 km, 5 ft, 65 mph, 2.5GHz",
         "one kilometer, five feet, sixty five miles per hour, two point five gigahertz"),
        ("1/2, 3/4, 2/3, 24/7, 9/11",
         "one half, three quarters, two thirds, twenty four seven, nine eleven"),
        ("the 1990s, the '80s, the 21st", "the nineteen nineties, the eighties, the twenty first"),
        ("Call 555-0142.", "Call five five five, zero one four two."),
        ("(415) 555-2671", "four one five, five five five, two six seven one"),
        ("v2.0.1, 3.14, 007", "v two point zero point one, three point one four, zero zero seven"),
        ("World War II, Chapter IV", "World War two, Chapter four"),
        ("In the U.S. and the U.K.", "In the U S and the U K."),
        ("St. John on Main St.", "Saint John on Main Street"),
        ("a.b@c.org, https://www.example.com/x-y.",
         "a dot b at c dot org, example dot com slash x dash y."),
        ("50% & me + 1 = #1 #fun", "fifty percent and me plus one equals number one hashtag fun"),
        ("“Well” — it’s (almost) done…", '"Well", it\'s, almost, done.'),
        ("e.g. this, i.e. that, etc.", "for example this, that is that, et cetera"),
        # Signs, ranges and calculations.
        ("It is -$500, –5 or ±3%.",
         "It is minus five hundred dollars, minus five or plus or minus three percent."),
        ("If x = -y, 5 − 3 = 2 and 7-2=5.",
         "If x equals minus y, five minus three equals two and seven minus two equals five."),
        ("Pages 12–15, 1900–1910.", "Pages twelve to fifteen, nineteen hundred to nineteen ten."),
        ("Mon–Fri, 9am–5pm or 9:00-17:00.",
         "Monday to Friday, nine A M to five P M or nine o'clock to seventeen hundred."),
        ("Jan-Mar, A〜Z", "January to March, A to Z"),
        ("It costs $5-10, $5–$7.", "It costs five to ten dollars, five to seven dollars."),
        ("a 2:1 score; yes—no", "a two to one score, yes, no"),
        ("if x <= 5, y>3", "if x is at most five, y is greater than three"),
        # Powers, fractions, numbers in circles, large and tiny numbers.
        ("x² + y³ is 10⁻³ and 2^8", ("x squared plus y cubed is ten to the minus third and two to "
         "the eighth")),
        ("10 m² and 5km³ at 9.8 m/s²", ("ten square meters and five cubic kilometers at nine point "
         "eight meters per second squared")),
        ("CO₂, ½ cup, 1½ cups, 2 1/2 hours", ("C O two, one half cup, one and a half cups, two and "
         "one half hours")),
        ("Step ①②, Chapter Ⅳ, № 7", "Step one, two, Chapter four, number seven"),
        ("1.5e-9 m or 6e23", ("one point five times ten to the minus ninth m or six times ten to "
         "the twenty third")),
        (".5 and 0.00001", "point five and zero point zero zero zero zero one"),
        ("World War I, Chapter V, Henry VIII, Louis XIV",
         "World War one, Chapter five, Henry the eighth, Louis the fourteenth"),
        # Dates, numbers of telephones and versions.
        ("2025-03-14T09:26:53Z is 2025/03/14 and 14.03.2025",
         ("March fourteenth, twenty twenty five, nine twenty six is March fourteenth, twenty"
         " twenty five and March fourteenth, twenty twenty five")),
        ("On Mar 14 or Sept 5th.", "On March fourteenth or September fifth."),
        ("Dial 911, call 1-800-555-0199, +44 20 7946 0958.",
         ("Dial nine one one, call one, eight zero zero, five five five, zero one nine nine, "
         "four four, two zero, seven nine four six, zero nine five eight.")),
        ("ver. 2.0.1, No.5, Fig. 2, pp. 3-5, vol. 3",
         ("version two point zero point one, number five, figure two, pages three to five, "
         "volume three")),
        # Units, currencies, addresses, signs.
        ("5G, 100M users, 16 MB/s, 5 µm, 300 K", ("five G, one hundred million users, sixteen "
         "megabytes per second, five micrometers, three hundred K")),
        ("4C€ 3", "four C three euros"),
        ("USD 50, 20 EUR, A$5, 5¢", ("fifty US dollars, twenty euros, five Australian dollars, "
         "five cents")),
        ("6'2\" tall, 5 ft 10 in, 40°26′46″",
         ("six foot two tall, five feet ten inches, forty degrees twenty six minutes forty six "
         "seconds")),
        ("See example.com/a and README.md.",
         "See example dot com slash a and README dot md."),
        ("10.0.0.1:8080", "ten dot zero dot zero dot one port eight thousand eighty"),
        ("Dr. Smith on Elm Dr., w/o a Ph.D. here",
         "Doctor Smith on Elm Drive, without a P H D here"),
        ("It is 100 €, 50$ or 8/2=4.",
         "It is one hundred euros, fifty dollars or eight divided by two equals four."),
        ("10:00 a.m.–5:00 p.m., 1st-3rd, UTC-5",
         "ten A M to five P M, first to third, UTC minus five"),
        ("AM9:00–PM5:30, PM 11:00, 5 PM 3",
         "nine A M to five thirty P M, eleven P M, five P M three"),
        ("Tel: 03-1234-5678", "Tel, zero three, one two three four, five six seven eight"),
        ("MP3s, C#, 30mpg, LED", "MP three s, C sharp, thirty miles per gallon, L E D"),
        ("Ms Lee of St Louis, 476 AD", "Miz Lee of Saint Louis, four hundred seventy six A D"),
        ("α, π, 5 Ω, Straße, Łódź", "alpha, pi, five ohms, Strasse, Lódź"),
        ("A → B, § 5, Acme™", "A to B, section five, Acme"),
        ("1234567890000000", f"one two three four five six seven eight nine{7 * ' zero'}"),
        ("", ""), ("🎉", ""), (" , ", ""),
    ],
)  # fmt: skip
def test_texts_are_written_out_as_they_are_said(text: str, spoken: str) -> None:
    assert write_out(text) == spoken


@pytest.mark.parametrize("text", ["1" * 2_000, "1." * 1_000, "a" * 2_000, "1,234" * 400])
def test_no_text_takes_long_to_write_out(text: str) -> None:
    begun = time.process_time()
    write_out(text)

    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize(
    ("write", "number", "words"),
    [
        (cardinal, 0, "zero"),
        (cardinal, 1_000_114, "one million one hundred fourteen"),
        (ordinal, 12, "twelfth"),
        (ordinal, 20, "twentieth"),
        (ordinal, 103, "one hundred third"),
        (year, 1900, "nineteen hundred"),
        (year, 1905, "nineteen oh five"),
        (year, 2007, "two thousand seven"),
    ],
)
def test_numbers_are_written_in_words(write: Callable[[int], str], number: int, words: str) -> None:
    assert write(number) == words


def test_a_number_that_python_does_not_convert_is_written_digit_by_digit() -> None:
    assert write_out("7" * 5000) == " ".join(["seven"] * 5000)
