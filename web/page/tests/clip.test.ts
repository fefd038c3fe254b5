import { expect, test } from "vitest";
import { lines, shortened, spokenAt } from "../src/clip.js";

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

test("a caption turns its pages as it is spoken", () => {
  const all = ["one", "two", "three", "four", "five"];
  expect([0, 0.4, 0.9, 1].map((share) => spokenAt(all, 2, share))).toEqual([
    ["one", "two"],
    ["three", "four"],
    ["five"],
    ["five"],
  ]);
  expect(spokenAt([], 2, 0.5)).toEqual([]);
});

test("a long credit ends with an ellipsis", () => {
  expect(shortened(["a", "b", "c"], 2)).toEqual(["a", "b …"]);
  expect(shortened(["a", "b"], 2)).toEqual(["a", "b"]);
});
