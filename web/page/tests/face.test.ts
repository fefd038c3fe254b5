import { describe, expect, test } from "vitest";
import { blinks, movement, RunningMovement } from "../src/face.js";

const RATE = 24_000;

/** One second of a tone of that height and loudness. */
function tone(hertz: number, peak: number): Float32Array {
  return Float32Array.from(
    { length: RATE },
    (_, index) => peak * Math.sin((2 * Math.PI * hertz * index) / RATE),
  );
}

function sound(...parts: Float32Array[]): Parameters<typeof movement>[0] {
  const samples = Float32Array.from(parts.flatMap((each) => [...each]));
  return { blob: new Blob(), seconds: samples.length / RATE, samples, isDecoded: true };
}

function opened(heard: Parameters<typeof movement>[0]): number[] {
  return movement(heard).map(({ open }) => open);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

describe("the mouth", () => {
  test("is closed in pauses and open in loud vowels", () => {
    const openings = opened(sound(tone(200, 0.5), new Float32Array(RATE), tone(200, 0.1)));
    expect(openings).toHaveLength(90);
    expect(mean(openings.slice(0, 30))).toBeGreaterThan(0.9);
    expect(mean(openings.slice(30, 60))).toBe(0);
    const quiet = mean(openings.slice(60));
    expect(quiet).toBeGreaterThan(0.1);
    expect(quiet).toBeLessThan(0.5);
  });

  test("stays narrow at a hiss as loud as a vowel", () => {
    const openings = opened(sound(tone(200, 0.5), tone(6000, 0.5)));
    expect(mean(openings.slice(32))).toBeLessThan(0.4);
  });

  test("does not move without a sound", () => {
    expect(Math.max(...opened(sound(new Float32Array(RATE))))).toBe(0);
  });

  test("has the shapes of what is said where that is known, and is closed where nobody speaks", () => {
    const said = sound(tone(200, 0.5), new Float32Array(RATE));
    const phones = [
      { phone: "m", begin: 0.2 },
      { phone: "a", begin: 0.4 },
      { phone: "U", begin: 0.6 },
      { phone: "i", begin: 0.8 },
    ];
    const shapes = movement({ ...said, phones });
    const [m, a, u, i] = [9, 15, 21, 27].map((index) => shapes[index]);
    expect(m?.open).toBe(0);
    expect(a?.open).toBe(1);
    expect(u?.open).toBeLessThan(0.5);
    expect(u?.wide).toBeLessThan(i?.wide ?? 0);
    expect(shapes[3]?.open).toBeGreaterThan(0);
    expect(shapes.slice(30).every(({ open }) => open === 0)).toBe(true);
  });
});

describe("the mouth while the character is heard live", () => {
  const MOMENT = 1024;

  test("opens at vowels of any loudness, narrowly at hisses, and closes in pauses", () => {
    for (const peak of [0.5, 0.08]) {
      const running = new RunningMovement();
      const open = (samples: Float32Array): number => running.next(samples, RATE).open;
      expect(open(tone(200, peak).subarray(0, MOMENT))).toBeGreaterThan(0.9);
      expect(open(tone(6000, peak).subarray(0, MOMENT))).toBeLessThan(0.4);
      expect(open(new Float32Array(MOMENT))).toBe(0);
    }
  });

  test("stays closed at noise without speech", () => {
    const noise = tone(200, 0.001).subarray(0, MOMENT);
    expect(new RunningMovement().next(noise, RATE).open).toBe(0);
  });
});

describe("the eyes in a video", () => {
  test("blink now and then, and shortly", () => {
    const moments = Array.from({ length: 1000 }, (_, index) => blinks(index / 100));
    const closed = moments.filter(Boolean).length / 1000;
    expect(closed).toBeGreaterThan(0.02);
    expect(closed).toBeLessThan(0.06);
    expect(blinks(0)).toBe(false);
  });
});
