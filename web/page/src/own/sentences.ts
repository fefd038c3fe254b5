/**
 * What owners read aloud: sentences that hold all sounds of their language, often, and enough of
 * them for more than five minutes. All were written for this project (MIT, as its code).
 */
import english from "../../../../tools/training/sources/texts/hina_en.txt?raw";
import japanese from "../../../../tools/training/sources/texts/hina_ja.txt?raw";
import moreEnglish from "./sentences_en.txt?raw";

/** How many letters are read in a second at an ordinary speed. */
const LETTERS_PER_SECOND = { en: 15, ja: 7 } as const;

export const SENTENCES: Readonly<Record<"en" | "ja", readonly string[]>> = {
  en: lines(english, moreEnglish),
  ja: lines(japanese),
};

/** How long a sentence takes at an ordinary speed. */
export function secondsOf(sentence: string, language: "en" | "ja"): number {
  return sentence.length / LETTERS_PER_SECOND[language];
}

function lines(...texts: readonly string[]): readonly string[] {
  return texts.flatMap((text) => text.trim().split("\n"));
}
