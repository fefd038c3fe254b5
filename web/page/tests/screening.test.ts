import { describe, expect, test } from "vitest";
import { type Expected, screen } from "../src/own/screening.js";

const RATE = 24_000;
const ANYTHING: Expected = { seconds: null, pitches: [], peak: null };

/** Syllables of a voice of this pitch, 0.2 s each with 0.05 s between them, in a silent room. */
function voice({
  seconds = 3,
  hertz = 150,
  level = 0.3,
  around = 0.4,
  noise = 1e-4,
} = {}): Float32Array {
  const total = Math.round((seconds + 2 * around) * RATE);
  return Float32Array.from({ length: total }, (_, index) => {
    const time = index / RATE - around;
    const hiss = noise * Math.sin(index * index * 0.37);
    if (time < 0 || time > seconds) return hiss;
    const syllable = Math.max(0, Math.sin((Math.PI * (time % 0.25)) / 0.2));
    const harmonics = [1, 2, 3, 4].reduce(
      (sum, each) => sum + Math.sin(2 * Math.PI * each * hertz * time) / each,
      0,
    );
    return level * syllable * harmonics * 0.5 + hiss;
  });
}

describe("a sentence that an owner has read", () => {
  test("is good in a quiet room, and its length and pitch are known", () => {
    const heard = screen(voice(), RATE, ANYTHING);
    expect(heard.fault).toBeNull();
    expect(heard.seconds).toBeGreaterThan(2.7);
    expect(heard.seconds).toBeLessThan(3.2);
    expect(Math.abs(12 * Math.log2((heard.pitch ?? 0) / 150))).toBeLessThan(1);
  });

  test.each([
    ["nothing", new Float32Array(3 * RATE), ANYTHING],
    ["nothing", voice({ level: 0.001 }), ANYTHING],
    ["quiet", voice({ level: 0.008 }), ANYTHING],
    ["clipped", voice({ level: 2 }).map((each) => Math.max(-0.8, Math.min(0.8, each))), ANYTHING],
    ["clipped", voice(), { ...ANYTHING, peak: 1 }],
    ["noisy", voice({ noise: 0.1 }), ANYTHING],
    ["cut_off", voice().subarray(Math.round(0.5 * RATE)), ANYTHING],
    ["incomplete", voice(), { ...ANYTHING, seconds: 8 }],
    ["another_voice", voice(), { ...ANYTHING, pitches: [310, 320, 330] }],
    ["echo", inAHall(voice()), ANYTHING],
    ["echo", inAHall(voice()).subarray(0, Math.round(4.2 * RATE)), ANYTHING],
  ] as const)("is told to be: %s", (fault, samples, expected) => {
    expect(screen(samples, RATE, expected).fault).toBe(fault);
  });

  test("may be read in a voice that goes up and down, and when few others are known", () => {
    expect(screen(voice(), RATE, { ...ANYTHING, pitches: [180, 170, 190] }).fault).toBeNull();
    expect(screen(voice(), RATE, { ...ANYTHING, pitches: [320] }).fault).toBeNull();
  });
});

/** Reflections that need 1.5 s for 60 dB. */
function inAHall(dry: Float32Array): Float32Array {
  const heard = new Float32Array(dry.length + RATE);
  heard.set(dry);
  for (let reflection = 1; reflection < 60; reflection += 1) {
    const late = Math.round(RATE * (0.018 * reflection + 0.003 * Math.sin(reflection * 7)));
    const weak = 0.5 * 10 ** ((-60 / 20) * (late / RATE / 1.5));
    dry.forEach((sample, index) => {
      heard[index + late] = (heard[index + late] ?? 0) + weak * sample;
    });
  }
  return heard;
}
