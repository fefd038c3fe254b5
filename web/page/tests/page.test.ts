import { describe, expect, test } from "vitest";
import { VoiceAvatarError } from "@voice-avatar/client";
import { listLanguages } from "../src/language.js";
import { PageError, problemOf } from "../src/problems.js";
import { contentTypeOf, judge, measure, outline } from "../src/sound.js";
import { tellUnread } from "../src/view.js";
import { preferredLanguage, WORDS } from "../src/words.js";
import { contentSecurityPolicy } from "../tools/contentSecurityPolicy.js";

const LIMITS = { minSeconds: 1, maxSeconds: 10 };

describe("what the page refuses itself", () => {
  test.each([
    ["too_short", { seconds: 0.9, peak: 0.5 }],
    ["too_long", { seconds: 10.6, peak: 0.5 }],
    ["silent", { seconds: 3, peak: 0.002 }],
  ])("%s", (code, measured) => {
    expect(() => judge(measured, LIMITS)).toThrow(code);
  });

  test("but not what encoders add to the longest recording", () => {
    expect(() => judge({ seconds: 10.4, peak: 0.5 }, LIMITS)).not.toThrow();
  });

  test("nor a recording that nobody measured: the service judges its level", () => {
    expect(() => judge({ seconds: 3, peak: null }, LIMITS)).not.toThrow();
  });

  test("by its largest sample, whatever its sign", () => {
    const samples = Float32Array.from([0.1, -0.5, 0.2]);
    expect(measure({ blob: new Blob(), seconds: 2, samples, isDecoded: true })).toEqual({
      seconds: 2,
      peak: 0.5,
    });
  });
});

test("an outline has as many levels as were asked for, the loudest being 1", () => {
  const samples = new Float32Array(1000);
  samples.fill(0.1, 500, 750);
  samples.fill(0.4, 750);
  const levels = outline({ blob: new Blob(), seconds: 1, samples, isDecoded: true }, 4);
  expect(levels).toEqual([0, 0, expect.closeTo(0.5, 5), 1]);
});

test.each([
  ["hello.m4a", "audio/x-m4a", "audio/mp4"],
  ["hello.webm", "video/webm", "audio/webm"],
  ["HELLO.WAV", "", "audio/wav"],
  ["hello", "audio/flac", "audio/flac"],
  ["notes", "", "application/octet-stream"],
])("the file %s of type '%s' goes as %s", (name, type, expected) => {
  expect(contentTypeOf(new File([], name, { type }))).toBe(expected);
});

describe("problems", () => {
  test("of a recording that would fail again are told as hopeless", () => {
    expect(problemOf(new VoiceAvatarError("corrupt", ""))).toEqual({
      key: "unsupported",
      code: null,
      hopeless: true,
    });
  });

  test("of the service's own making show their code", () => {
    expect(problemOf(new VoiceAvatarError("attempts_exhausted", ""))).toEqual({
      key: "server",
      code: "attempts_exhausted",
      hopeless: false,
    });
  });

  test("of the microphone have no code to show", () => {
    expect(problemOf(new PageError("no_microphone")).code).toBeNull();
  });
});

describe("languages", () => {
  test.each([
    [["ja-JP", "en"], "ja"],
    [["fr-FR", "ja"], "ja"],
    [["de"], "en"],
    [[], "en"],
  ] as const)("%j reads %s", (languages, expected) => {
    expect(preferredLanguage(languages)).toBe(expected);
  });

  test("say the same things", () => {
    expect(Object.keys(WORDS.ja)).toEqual(Object.keys(WORDS.en));
    expect(Object.keys(WORDS.ja.problems)).toEqual(Object.keys(WORDS.en.problems));
  });
});

test.each([
  ["en", "Japanese, English, or Portuguese"],
  ["ja", "日本語、英語、またはポルトガル語"],
] as const)("the languages of a character are listed in %s", (language, listed) => {
  expect(listLanguages(["ja", "en", "pt"], WORDS[language], "disjunction")).toBe(listed);
});

test.each([
  ["en", "Left out, because no voice here reads it: Korean and Runic."],
  ["ja", "読める声がないため、読み上げていない部分があります（韓国語、Runic）。"],
] as const)("what no voice reads of a text is named in %s", (language, sentence) => {
  expect(tellUnread("Korean, Runic", WORDS[language])).toBe(sentence);
});

describe("the content security policy", () => {
  test("of a site names just its origins", () => {
    const policy = contentSecurityPolicy({ api: "https://api.example/base", firebase: {} });
    expect(policy).toContain(
      "connect-src 'self' https://api.example https://storage.googleapis.com https://firestore.googleapis.com;",
    );
    expect(policy).toContain("script-src 'self';");
    expect(policy).not.toMatch(/unsafe|\*/);
  });

  test("lets the page reach the socket that its configuration names", () => {
    const policy = contentSecurityPolicy({
      api: "https://api.example",
      live: "wss://live.example/live",
    });
    expect(policy).toContain(
      "connect-src 'self' https://api.example https://storage.googleapis.com wss://live.example;",
    );
  });

  test("where visitors sign in, lets the page reach Firebase Authentication", () => {
    const signIn = { email: true, anonymous: false };
    const policy = contentSecurityPolicy({ api: "https://api.example", firebase: {}, signIn });
    expect(policy).toContain(
      "https://firestore.googleapis.com https://identitytoolkit.googleapis.com https://securetoken.googleapis.com;",
    );
    expect(policy).toContain("script-src 'self';");
  });

  test("where App Check vouches for the page, lets reCAPTCHA in and nobody else", () => {
    const appCheck = { appId: "1:2:web:3", siteKey: "s" };
    const policy = contentSecurityPolicy({ api: "https://api.example", firebase: {}, appCheck });
    expect(policy).toContain(
      "https://firestore.googleapis.com https://content-firebaseappcheck.googleapis.com https://www.google.com/recaptcha/;",
    );
    expect(policy).toContain(
      "script-src 'self' https://www.google.com/recaptcha/ https://www.gstatic.com/recaptcha/;",
    );
    expect(policy).toContain(
      "frame-src https://www.google.com/recaptcha/ https://recaptcha.google.com/recaptcha/;",
    );
    expect(policy).not.toContain("require-trusted-types-for");
    expect(policy).not.toMatch(/unsafe|\*/);
  });

  test("with the local cloud's own token lets nobody else in", () => {
    const site = { api: "https://api.example", firebase: {} };
    expect(contentSecurityPolicy({ ...site, appCheck: { token: "t" } })).toBe(
      contentSecurityPolicy(site),
    );
  });

  test("of the local cloud reaches this machine and nothing else", () => {
    expect(contentSecurityPolicy(null)).toContain(
      "connect-src 'self' http://127.0.0.1:* http://localhost:* ws://127.0.0.1:* ws://localhost:*;",
    );
  });
});
