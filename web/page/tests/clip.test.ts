import { expect, test } from "vitest";
import { lines } from "../src/clip.js";

test("a credit is written in lines that keep its words whole", () => {
  expect(lines("Voice: Mei, by the MMDAgent Project Team (CC BY 3.0)", 24)).toEqual([
    "Voice: Mei, by the",
    "MMDAgent Project Team",
    "(CC BY 3.0)",
  ]);
});

test("letters of Japanese are twice as wide", () => {
  for (const line of lines("声：名古屋工業大学国際音声技術研究所", 12))
    expect(line.length).toBeLessThanOrEqual(6);
  expect(lines("声：名古屋工業大学国際音声技術研究所", 12).join("")).toBe(
    "声：名古屋工業大学国際音声技術研究所",
  );
});

test("no credit makes no line", () => {
  expect(lines("", 20)).toEqual([]);
});
