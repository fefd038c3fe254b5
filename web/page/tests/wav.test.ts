import { expect, test } from "vitest";
import { fileName } from "../src/files.js";
import { statement, wavOf } from "../src/wav.js";

const MEI = { id: "mei", name: { en: "Mei", ja: "メイ" }, credit: "Voice: somebody" };

test("a WAV file has its length, its rate and the statement of what it is", async () => {
  const samples = Float32Array.from([0, 0.5, -0.5, 2]);
  const sound = { blob: new Blob(), seconds: 4 / 24_000, samples, isDecoded: true };
  const wav = wavOf(sound, statement(MEI as never, false));
  const bytes = new Uint8Array(await wav.arrayBuffer());
  const view = new DataView(bytes.buffer);
  const text = new TextDecoder("latin1").decode(bytes);
  expect(view.getUint32(4, true)).toBe(bytes.length - 8);
  expect(view.getUint32(24, true)).toBe(24_000);
  const data = text.indexOf("data");
  expect(view.getUint32(data + 4, true)).toBe(8);
  expect([0, 1, 2, 3].map((index) => view.getInt16(data + 8 + 2 * index, true))).toEqual([
    0, 16_384, -16_383, 32_767,
  ]);
  expect(text).toContain("Synthetic speech, converted to the voice of Mei. Voice: somebody");
  expect(text).toContain("trainedAlgorithmicMedia");
  const stated = text.slice(text.indexOf("LIST"), data);
  expect(view.getUint32(text.indexOf("LIST") + 4, true)).toBe(stated.length - 8);
});

test("a text's statement says that it was spoken from text", () => {
  expect(statement(MEI as never, true).comment).toContain("spoken from text in the voice of Mei");
});

test("a file's name says who speaks and when it was made", () => {
  const at = new Date(2026, 10, 3, 9, 5, 7);
  const named = (en: string): string => fileName({ name: { en } }, "audio/mpeg", at);
  expect(named("Mei")).toBe("mei-2026-11-03-090507.mp3");
  expect(named("../Ada O’Neil?")).toBe("ada-o-neil-2026-11-03-090507.mp3");
  expect(named("はな")).toBe("はな-2026-11-03-090507.mp3");
  expect(named("☆")).toBe("voice-2026-11-03-090507.mp3");
  expect(fileName(null, "audio/wav", at)).toBe("voice-2026-11-03-090507.wav");
});
