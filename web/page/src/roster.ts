/** The list of characters, kept up to date. */
import type { Character, VoiceAvatar } from "@voice-avatar/client";
import { keptCharacters } from "./own/keeping.js";
import type { Setup } from "./setup.js";

/** A list older than this is fetched again when the visitor comes back to the page. */
const OLD_MILLISECONDS = 60_000;
/** How many of the visitor's own characters are looked up. */
const MOST_OWN = 10;

export class Roster {
  readonly #client: VoiceAvatar;
  readonly #setup: Setup;
  /** Whether the character that the address names was chosen; afterwards the visitor chooses. */
  #hasChosen = false;
  #loadedAt = Number.NEGATIVE_INFINITY;

  constructor(client: VoiceAvatar, setup: Setup) {
    this.#client = client;
    this.#setup = setup;
  }

  /** Whether characters may have come or gone since the list was loaded. */
  get isOld(): boolean {
    return performance.now() - this.#loadedAt > OLD_MILLISECONDS;
  }

  /** Offers the characters that there are now. */
  async load(): Promise<void> {
    const linked = linkedCharacter();
    const kept = keptCharacters().filter(({ isReady }) => isReady);
    const ids = new Set([
      ...(linked === null ? [] : [linked]),
      ...kept.map((each) => each.characterId),
    ]);
    const [all, ...own] = await Promise.all([
      this.#client.characters(),
      ...[...ids].slice(0, MOST_OWN).map((id) => this.#own(id)),
    ]);
    const found = own.filter((each) => each !== null);
    const listed = all.filter(({ id }) => !ids.has(id));
    this.#setup.offer([...listed, ...found]);
    const wanted = found.find(({ id }) => id === linked);
    if (!this.#hasChosen) {
      this.#setup.restore();
      if (wanted !== undefined) this.#setup.prefer(wanted);
    }
    this.#hasChosen = true;
    this.#loadedAt = performance.now();
  }

  /** A visitor's own character, which no list has; null if it was deleted. */
  async #own(id: string): Promise<Character | null> {
    return await this.#client.character(id).catch(() => null);
  }
}

/** The own character that the page's address names, as its owner has passed it on. */
function linkedCharacter(): string | null {
  return /^#character=(own-[a-z2-7]{26})$/.exec(location.hash)?.[1] ?? null;
}
