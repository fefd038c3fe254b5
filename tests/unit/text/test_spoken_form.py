from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.speech.text.spoken_form import write_out

SPEAKABLE = re.compile(
    r"[A-Za-z0-9\u0370-\u03ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff々%℃、。!?,.'/: -]*"
)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("2026/11/22(日)、12:30集合", "2026年11月22日、日曜日、12時30分集合"),
        ("2026-01-05", "2026年1月5日"),
        ("11/3に会おう", "11月3日に会おう"),
        ("1/2の確率", "2分の1の確率"),
        ("99/100点", "100分の99点"),
        ("9:00〜17:30", "9時から17時30分"),
        ("1:02:03", "1時2分3秒"),
        ("ワインを3:2で混ぜる", "ワインを3対2で混ぜる"),
        ("¥1,234,567", "1234567円"),
        ("$12.50と€3", "12.5ドルと3ユーロ"),
        ("¥100万", "100万円"),
        ("20GBで5km/h、50㎏", "20ギガバイトで5キロメートル毎時、50キログラム"),
        ("-5℃から30°Cまで", "マイナス5度から30度まで"),
        ("2×3=6", "2かける3イコール6"),
        ("x^2+y", "xの2乗プラスy"),
        ("C++とC#", "CプラスプラスとCシャープ"),
        ("#東京 に行く", "ハッシュタグ東京 に行く"),
        ("R&D", "RアンドD"),
        ("10~20人", "10から20人"),
        ("すごーい〜〜", "すごーいー"),
        ("やった!!!!!", "やった!"),
        ("わああああああああ", "わああああああああ"),
        ("それなwww", "それな、わら"),
        ("「はい」（本当）", "はい、本当"),
        ("https://example.com/a?b=c を見て", "ユーアールエル、を見て"),
        ("taro@example.com", "メールアドレス"),
        ("Ⅲ章と①", "3章と1"),
        ("café", "cafe"),
        ("うれしい😀🎉", "うれしい"),
        ("😀🎉😀", "にっこり、おめでとう"),
        ("🦄", "絵文字"),
        ("\u202eあ\u200bい\x00", "あい"),
        ("〇〇さん", "まるまるさん"),
        ("25:99", "25対99"),
        ("2026/13/45", "2026/13/45"),
        ("", ""),
        ("!?…", ""),
        ("привет", ""),
        ("שלום", ""),
    ],
)
def test_a_text_is_written_out_as_it_is_said(text: str, spoken: str) -> None:
    assert write_out(text) == spoken


@given(st.text())
def test_only_readable_text_remains(text: str) -> None:
    assert SPEAKABLE.fullmatch(write_out(text))
