/** Remembers in this browser which characters its visitor has begun, and how far each is. */
import type {
  ListedOwnCharacter,
  OwnerOf,
  RecordingKind,
} from "@voice-avatar/client/own-characters";

const PLACE = "voice-avatar-own-characters";

/** A recording that the service has. */
export interface Spoken {
  readonly recordingId: string;
  readonly kind: RecordingKind;
  /** How long somebody speaks in it. */
  readonly seconds: number;
  /** Median pitch in Hz; null if it is not known. */
  readonly pitch: number | null;
}

/** A character of the visitor's own voice. */
export interface Kept extends OwnerOf {
  readonly name: string;
  readonly language: "en" | "ja";
  /** The sentence of the spoken consent. */
  readonly sentence: string;
  /** Which sentence comes next. */
  readonly at: number;
  readonly spoken: readonly Spoken[];
  readonly isReady: boolean;
}

/** All of them, the one that was used last first. */
export function keptCharacters(): readonly Kept[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(PLACE) ?? "[]");
    return Array.isArray(found) ? (found as Kept[]) : [];
  } catch {
    // Storage is switched off, or holds something else.
    return [];
  }
}

/** The secret of a character, if it is one of this browser's visitor. */
export function keyOfKept(characterId: string): string | null {
  return keptCharacters().find((each) => each.characterId === characterId)?.key ?? null;
}

/** Keeps a character as the one that was used last. */
export function keep(kept: Kept): void {
  write([kept, ...others(kept)]);
}

/**
 * Remembers the characters of an account that can be used, so that the first page offers them, too;
 * what this browser knows of them stays.
 */
export function keepListed(listed: readonly ListedOwnCharacter[]): void {
  const left = new Map(listed.map((each) => [each.characterId, each]));
  const known = keptCharacters().map((kept) => {
    const now = left.get(kept.characterId);
    left.delete(kept.characterId);
    return now === undefined ? kept : { ...kept, name: now.name, isReady: now.isUsable };
  });
  const added = [...left.values()]
    .filter(({ isUsable }) => isUsable)
    .map(({ characterId, name, language }) => {
      const unknown = { key: null, sentence: "", at: 0, spoken: [] };
      return { characterId, name, language, isReady: true, ...unknown };
    });
  write([...known, ...added]);
}

/** Forgets a character that does not exist any more. */
export function forget(kept: OwnerOf): void {
  write(others(kept));
}

/** The address that opens a character on another device: whoever has it owns the character. */
export function addressOf({ characterId, key }: OwnerOf, page: string): string {
  return new URL(`own.html#${characterId}.${key ?? ""}`, page).href;
}

/** The character that an address opens, or null. */
export function ownerIn(hash: string): OwnerOf | null {
  const [, characterId, key] = /^#(own-[a-z2-7]+)\.([\w-]+)$/.exec(hash) ?? [];
  return characterId === undefined || key === undefined ? null : { characterId, key };
}

function others({ characterId }: OwnerOf): Kept[] {
  return keptCharacters().filter((each) => each.characterId !== characterId);
}

function write(all: readonly Kept[]): void {
  try {
    localStorage.setItem(PLACE, JSON.stringify(all));
  } catch {
    // Storage is switched off: the address of the character still opens it.
  }
}
