import { expect, test } from "vitest";
import { JitterBuffer } from "../src/jitterBuffer.js";

const RATE = 24_000;
/** 180 ms. */
const START = 4320;

function ones(count: number, value = 0.5): Float32Array {
  return new Float32Array(count).fill(value);
}

function read(buffer: JitterBuffer, count: number): Float32Array {
  const output = new Float32Array(count);
  buffer.read(output);
  return output;
}

function largestStep(samples: Float32Array): number {
  return samples.reduce(
    (most, sample, index) => Math.max(most, Math.abs(sample - (samples[index - 1] ?? sample))),
    0,
  );
}

test("starts as soon as there is enough in store", () => {
  const buffer = new JitterBuffer(RATE);
  buffer.push(0, ones(START - 1));
  expect(Math.max(...read(buffer, 100))).toBe(0);
  buffer.push(START - 1, ones(1));
  expect(read(buffer, 1000).at(-1)).toBe(0.5);
});

test("starts with less when that has waited, so that one piece alone is heard, too", () => {
  const buffer = new JitterBuffer(RATE);
  expect(Math.max(...read(buffer, START))).toBe(0);
  buffer.push(0, ones(2880));
  expect(Math.max(...read(buffer, START - 2880))).toBe(0);
  expect(read(buffer, 200).at(-1)).toBe(0.5);
});

test("plays every sample once, however it is cut and repeated", () => {
  const buffer = new JitterBuffer(RATE);
  const ramp = Float32Array.from({ length: 6000 }, (_, index) => index / 6000);
  buffer.push(0, ramp.subarray(0, 5000));
  buffer.push(0, ramp.subarray(0, 5000));
  buffer.push(4500, ramp.subarray(4500, 6000));
  const played = read(buffer, 6000);
  // After the first fade, which lasts 120 samples.
  expect(played.subarray(200)).toEqual(ramp.subarray(200));
});

test("fades out where a piece is missing, and waits until there is enough again", () => {
  const buffer = new JitterBuffer(RATE);
  buffer.push(0, ones(START));
  const played = read(buffer, START + 1000);
  expect(largestStep(played)).toBeLessThan(0.01);
  expect(played.at(-1)).toBe(0);
  buffer.push(START, ones(2880));
  expect(read(buffer, 100).at(-1)).toBe(0);
  buffer.push(START + 2880, ones(2880));
  expect(read(buffer, 200).at(-1)).toBe(0.5);
});

test("is silent for samples that never came, and keeps the others in their place", () => {
  const buffer = new JitterBuffer(RATE);
  buffer.push(0, ones(1000));
  buffer.push(2000, ones(4000, -0.5));
  const played = read(buffer, 6000);
  expect([played[900], played[1900], played[5900]]).toEqual([0.5, 0, -0.5]);
  expect(largestStep(played)).toBeLessThan(0.01);
});

test("leaves out what has become too old, without a click", () => {
  const buffer = new JitterBuffer(RATE);
  buffer.push(0, ones(START));
  const before = read(buffer, 500);
  buffer.push(START, ones(24_000, -0.5));
  const after = read(buffer, 1000);
  const both = Float32Array.from([...before, ...after]);
  expect(largestStep(both)).toBeLessThan(0.01);
  expect(after.at(-1)).toBe(-0.5);
  // No more than 180 ms are left, less what has been read since.
  expect(read(buffer, START).at(-1)).toBeCloseTo(0);
});
