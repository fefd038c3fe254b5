import { describe, expect, test } from "vitest";
import { SENTENCES, secondsOf } from "../src/own/sentences.js";
import { GOOD_SECONDS } from "../src/own/view.js";

describe.each(["en", "ja"] as const)("what is read aloud in %s", (language) => {
  const sentences = SENTENCES[language];

  test("lasts longer than what is good, and no sentence comes twice", () => {
    const seconds = sentences.reduce((sum, each) => sum + secondsOf(each, language), 0);
    expect(seconds).toBeGreaterThan(1.15 * GOOD_SECONDS);
    expect(new Set(sentences).size).toBe(sentences.length);
  });

  test("has nothing that cannot be read in one breath", () => {
    for (const each of sentences) expect(secondsOf(each, language)).toBeLessThan(9);
  });
});
