/** A sample of each character, made when it is first asked for and kept for this visit. */
import type { Character, VoiceAvatar } from "@voice-avatar/client";
import { nameOf } from "./characterList.js";
import { part } from "./elements.js";
import { Player } from "./sound.js";
import { WORDS, type Words } from "./words.js";

/** About how long a sample is, until the browser knows. */
const SECONDS = 4;

export interface SampleEvents {
  /** A sample is heard: everything else becomes silent. */
  readonly onPlay: () => void;
  readonly onFailure: () => void;
}

export class Samples {
  readonly #client: VoiceAvatar;
  readonly #events: SampleEvents;
  readonly #list = part("#characters", HTMLElement);
  readonly #player = new Player(() => this.#mark());
  /** Their addresses, by character and language. */
  readonly #kept = new Map<string, string>();
  #characters: readonly Character[] = [];
  #words: Words | null = null;
  /** The character that is wanted now, and whether its sample is still being made. */
  #wanted: string | null = null;
  #isMaking = false;

  constructor(client: VoiceAvatar, events: SampleEvents) {
    this.#client = client;
    this.#events = events;
    this.#list.addEventListener("click", ({ target }) => {
      const button = target instanceof Element ? target.closest<HTMLElement>(".sample") : null;
      const wanted = this.#characters.find(({ id }) => id === button?.dataset["of"]);
      if (wanted !== undefined) void this.#toggle(wanted);
    });
  }

  render(words: Words, characters: readonly Character[]): void {
    this.#words = words;
    this.#characters = characters;
    this.#mark();
  }

  silence(): void {
    this.#wanted = null;
    this.#isMaking = false;
    this.#player.pause();
    this.#mark();
  }

  async #toggle(character: Character): Promise<void> {
    const { id } = character;
    const isOn = this.#wanted === id && (this.#isMaking || this.#player.playing);
    this.silence();
    if (isOn || this.#words === null) return;
    this.#events.onPlay();
    this.#wanted = id;
    this.#isMaking = true;
    this.#mark();
    try {
      const address = await this.#find(character, this.#words);
      // Meanwhile the visitor may have wanted another one, or nothing any more.
      if (this.#wanted !== id) return;
      this.#isMaking = false;
      this.#player.load(address, SECONDS);
      // A browser may require another click before it plays; the sample is kept for that.
      await this.#player.play().catch(() => undefined);
    } catch {
      if (this.#wanted !== id) return;
      this.#isMaking = false;
      this.#events.onFailure();
    }
    this.#mark();
  }

  async #find(character: Character, words: Words): Promise<string> {
    const key = `${words.language} ${character.id}`;
    const known = this.#kept.get(key);
    if (known !== undefined) return known;
    // A character that does not speak the page's language says it in its usual one.
    const languages = character.text?.languages ?? [];
    const language = languages.includes(words.language) ? words.language : languages[0];
    const said = (WORDS as Partial<Record<string, Words>>)[language ?? ""] ?? words;
    const { voice, result } = await this.#client.speak(said.sample(nameOf(character, said)), {
      character: character.id,
      outputFormat: "mp3",
      ...(language === undefined ? {} : { language }),
    });
    const address = URL.createObjectURL(await this.#client.download(result));
    this.#kept.set(key, address);
    // The visitor has not made it, so nothing of it is left behind.
    void this.#client.deleteVoice(voice.voiceId).catch(() => undefined);
    return address;
  }

  /** Shows which sample is being made and which is heard. */
  #mark(): void {
    for (const button of this.#list.querySelectorAll<HTMLElement>(".sample")) {
      const isWanted = button.dataset["of"] === this.#wanted;
      const isHeard = isWanted && this.#player.playing;
      button.setAttribute("aria-busy", String(isWanted && this.#isMaking));
      button.setAttribute("aria-pressed", String(isHeard));
      const icon = isHeard ? "#icon-pause" : "#icon-play";
      part("use", SVGUseElement, button).setAttribute("href", icon);
    }
  }
}
