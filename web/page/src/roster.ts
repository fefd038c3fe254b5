/** The list of characters, kept up to date. */
import type { VoiceAvatar } from "@voice-avatar/client";
import type { Setup } from "./setup.js";

/** A list older than this is fetched again when the visitor comes back to the page. */
const OLD_MILLISECONDS = 60_000;

export class Roster {
  readonly #client: VoiceAvatar;
  readonly #setup: Setup;
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
    this.#setup.offer(await this.#client.characters());
    this.#loadedAt = performance.now();
  }
}
