"""Random sentences: what is said matters less than that every sound occurs often."""

from pathlib import Path
from random import Random

_PLACES = "駅 公園 台所 図書館 病院 空港 海岸 神社 教室 工場 市場 広場 港 牧場 博物館".split()
_THINGS = (
    "手袋 自転車 牛乳 地図 写真 太鼓 切手 風船 望遠鏡 百科事典 砂時計 お弁当 味噌汁 餃子 ピアノ "
    "ヴァイオリン チェス シャツ ジャム フェンス ティーカップ 扇風機 蝋燭 宝石 靴下 鉛筆 石鹸 電池 "
    "双眼鏡 蜂蜜 人参 じゃがいも きゅうり りょうり 百円玉 入場券 絵葉書 目覚まし時計 ウェディングドレス"
).split()
_PEOPLE = "先生 妹 船長 村長 祖母 友達 医者 画家 忍者 姉 運転手 歌手 校長 隣の人 料理長".split()
_HOW = "静かに こっそり 急いで 毎朝 丁寧に 今年も ぼんやり 二人で 勢いよく 大声で 突然".split()
_KIND = "古い 眩しい 小さな 不思議な 冷たい 丸い 貴重な 薄っぺらい 賑やかな 柔らかい 頑丈な".split()
_DOES = (
    "運んだ 隠してしまった 見つけた 売っています 磨いてください 並べましょう 直せなかった 届けに行く "
    "欲しがっている 眺めた 分けてあげた 拾いました 忘れないで 探さなければならない 選ばれた"
).split()
_SAYINGS = (
    "おはようございます。 今日はいい天気ですね。 ちょっと待って。 どこへ行くの。 大丈夫ですか。 "
    "すぐに戻ります。 全然分からない。 手伝ってくれてありがとう。 お先に失礼します。 そうかもしれない。 "
    "明日また会いましょう。 もう一度お願いします。 びっくりした。 何を食べようかな。 夢みたいだね。"
).split()
_MORAE = (
    "あ い う え お か き く け こ さ し す せ そ た ち つ て と な に ぬ ね の は ひ ふ へ ほ ま み む め も や ゆ よ "
    "ら り る れ ろ わ が ぎ ぐ げ ご ざ じ ず ぜ ぞ だ で ど ば び ぶ べ ぼ ぱ ぴ ぷ ぺ ぽ "
    "きゃ きゅ きょ しゃ しゅ しょ ちゃ ちゅ ちょ にゃ にゅ にょ ひゃ ひゅ ひょ みゃ みゅ みょ りゃ りゅ りょ "
    "ぎゃ ぎゅ ぎょ じゃ じゅ じょ びゃ びゅ びょ ぴゃ ぴゅ ぴょ ふぁ ふぃ ふぇ ふぉ てぃ でぃ うぃ うぇ しぇ ちぇ じぇ"
).split()


def japanese(random: Random) -> str:
    """A sentence from a pattern, or, every second time, a phrase of invented words."""
    choose = random.choice
    pattern = random.random()
    if pattern < 0.2:
        return f"{choose(_PEOPLE)}は{choose(_HOW)}、{choose(_PLACES)}で{choose(_KIND)}{choose(_THINGS)}を{choose(_DOES)}。"
    if pattern < 0.32:
        return f"{choose(_KIND)}{choose(_THINGS)}が{random.randint(1, 9999)}{choose(['円', '個', 'メートル', '年'])}もする。"
    if pattern < 0.42:
        return choose(_SAYINGS) + choose(_SAYINGS)
    if pattern < 0.52:
        return f"{choose(_THINGS)}より{choose(_THINGS)}の方が{choose(_KIND)}{choose(_PEOPLE)}に似合う。"
    return "、".join(invented_word(random) for _ in range(random.randint(2, 4)))


def invented_word(random: Random) -> str:
    word = ""
    for index in range(random.randint(2, 6)):
        word += random.choice(_MORAE)
        if index and random.random() < 0.1:
            word += random.choice("ーん")
        if random.random() < 0.08:
            word += "っ" + random.choice("かきけこさしたちてとぱぷぽ")
    return word


def english(random: Random, words: list[str]) -> str:
    return " ".join(random.choice(words) for _ in range(random.randint(4, 8)))


def dictionary_words(dictionary: Path) -> list[str]:
    with dictionary.open(encoding="utf-8") as lines:
        heads = (line.split()[0] for line in lines)
        return [head for head in heads if head.isalpha() and 2 < len(head) < 11]
