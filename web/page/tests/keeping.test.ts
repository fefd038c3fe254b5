import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ListedOwnCharacter } from "@voice-avatar/client/own-characters";
import {
  addressOf,
  forget,
  keep,
  keepListed,
  type Kept,
  keptCharacters,
  ownerIn,
} from "../src/own/keeping.js";

const ID = `own-${"a".repeat(26)}`;
const ADA: Kept = {
  characterId: ID,
  key: "a-secret_1",
  name: "Ada",
  language: "en",
  sentence: "Today is",
  at: 3,
  spoken: [{ recordingId: "r", kind: "speech", seconds: 4, pitch: 200 }],
  isReady: false,
};
const BEN: Kept = { ...ADA, characterId: `own-${"b".repeat(26)}`, name: "Ben" };

beforeEach(() => {
  const stored = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => stored.get(name) ?? null,
    setItem: (name: string, value: string) => stored.set(name, value),
  });
});

afterEach(() => {
  vi.unstubAllGlobals();
});

test("the character that was used last comes first, and one that is gone is forgotten", () => {
  keep(ADA);
  keep(BEN);
  keep({ ...ADA, at: 4 });
  expect(keptCharacters().map(({ name, at }) => [name, at])).toEqual([
    ["Ada", 4],
    ["Ben", 3],
  ]);
  forget(ADA);
  expect(keptCharacters()).toEqual([BEN]);
});

test("what an account has is offered here, too, and what is known of it stays", () => {
  const listed = (characterId: string, name: string, isUsable: boolean): ListedOwnCharacter => ({
    characterId,
    name,
    isUsable,
    language: "ja",
    visibility: "private",
    status: "ready",
    createdAt: new Date(0),
  });
  keep(BEN);
  keep(ADA);
  const [eve, unfinished] = [`own-${"e".repeat(26)}`, `own-${"u".repeat(26)}`];
  keepListed([
    listed(unfinished, "Una", false),
    listed(eve, "Eve", true),
    listed(ID, "Adele", true),
  ]);
  const [adele, ben, third, ...others] = keptCharacters();
  expect(adele).toEqual({ ...ADA, name: "Adele", isReady: true });
  expect(ben).toEqual(BEN);
  expect(third).toMatchObject({ characterId: eve, key: null, language: "ja", isReady: true });
  expect(others).toEqual([]);
});

test("where storage is switched off nothing is kept, and nothing fails", () => {
  const refuse = (): never => {
    throw new DOMException("storage is off", "SecurityError");
  };
  vi.stubGlobal("localStorage", { getItem: refuse, setItem: refuse });
  keep(ADA);
  expect(keptCharacters()).toEqual([]);
});

test("the secret address names the character and its key", () => {
  const address = addressOf(ADA, "https://voices.example/own.html?a#b");
  expect(address).toBe(`https://voices.example/own.html#${ID}.a-secret_1`);
  expect(ownerIn(new URL(address).hash)).toEqual({ characterId: ID, key: "a-secret_1" });
});

test.each(["", "#", "#verify", `#character=${ID}`, "#mei.key"])(
  "%s names no owner of a character",
  (hash) => {
    expect(ownerIn(hash)).toBeNull();
  },
);
