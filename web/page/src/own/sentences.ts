/** What owners read aloud: sentences that hold all sounds of their language, often. */
import english from "../../../../training/kokoro/texts/hina_en.txt?raw";
import japanese from "../../../../training/kokoro/texts/hina_ja.txt?raw";

/** How many letters are read in a second at an ordinary speed. */
const LETTERS_PER_SECOND = { en: 15, ja: 7 } as const;

export const SENTENCES: Readonly<Record<"en" | "ja", readonly string[]>> = {
  en: english.trim().split("\n"),
  ja: japanese.trim().split("\n"),
};

/** How long a sentence takes at an ordinary speed. */
export function secondsOf(sentence: string, language: "en" | "ja"): number {
  return sentence.length / LETTERS_PER_SECOND[language];
}
