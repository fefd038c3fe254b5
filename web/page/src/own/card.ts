/** Shows an owner how a character was measured, and plays pairs to compare. */
import type { OwnCharacterCard, OwnCharacters, OwnerOf } from "@voice-avatar/client/own-characters";
import { element, part } from "../elements.js";
import type { OwnWords } from "./words.js";

export class Card {
  readonly #client: OwnCharacters;
  readonly #onFailure: (error: unknown) => void;
  readonly #audio = new Audio();
  #shown: OwnCharacterCard | null = null;
  #owner: OwnerOf | null = null;
  #words: OwnWords | null = null;

  constructor(client: OwnCharacters, onFailure: (error: unknown) => void) {
    this.#client = client;
    this.#onFailure = onFailure;
    part("#card", HTMLDetailsElement).addEventListener("toggle", () => void this.#load());
  }

  /** Shows the card of a character from now on; null where there is no character. */
  render(owner: OwnerOf | null, words: OwnWords): void {
    const isOther = owner?.characterId !== this.#owner?.characterId;
    this.#owner = owner;
    if (isOther) this.#close();
    if (words !== this.#words) {
      this.#words = words;
      this.#draw();
    }
  }

  /** What was measured is that of a training before. */
  forget(): void {
    this.#close();
  }

  #close(): void {
    this.#audio.pause();
    this.#shown = null;
    part("#card", HTMLDetailsElement).open = false;
  }

  async #load(): Promise<void> {
    const owner = this.#owner;
    if (owner === null || this.#shown !== null || !part("#card", HTMLDetailsElement).open) return;
    try {
      const card = await this.#client.card(owner);
      if (this.#owner?.characterId !== owner.characterId) return;
      this.#shown = card;
      this.#draw();
    } catch (error) {
      this.#onFailure(error);
    }
  }

  #draw(): void {
    const card = this.#shown;
    const words = this.#words;
    if (card === null || words === null) return;
    const figures = figuresOf(card, words).flatMap(([name, value]) => [
      element("dt", "", name),
      element("dd", "", value),
    ]);
    part("#figures", HTMLElement).replaceChildren(...figures);
    const numbers = card.sounds.filter((each) => each.endsWith("-original"));
    const pairs = numbers.map((original, index) => {
      const entry = element("li", "");
      const whose = original.startsWith("own-") ? words.yourSentence : words.anothersSentence;
      const name = whose(new Intl.NumberFormat(words.language).format(index + 1));
      entry.append(element("span", "", name));
      for (const [sound, label] of [
        [original, words.asRecorded],
        [original.replace("-original", "-converted"), words.asCharacter],
      ] as const) {
        const button = element("button", "button", label);
        button.type = "button";
        button.setAttribute("aria-label", `${name}: ${label}`);
        button.addEventListener("click", () => void this.#play(sound));
        entry.append(button);
      }
      return entry;
    });
    part("#pairs", HTMLElement).replaceChildren(...pairs);
  }

  async #play(sound: string): Promise<void> {
    if (this.#owner === null) return;
    try {
      const blob = await this.#client.cardSound(this.#owner, sound);
      URL.revokeObjectURL(this.#audio.src);
      this.#audio.src = URL.createObjectURL(blob);
      await this.#audio.play();
    } catch (error) {
      this.#onFailure(error);
    }
  }
}

function figuresOf(card: OwnCharacterCard, words: OwnWords): (readonly [string, string])[] {
  const percent = new Intl.NumberFormat(words.language, { style: "percent" });
  const minutes = new Intl.NumberFormat(words.language, { maximumFractionDigits: 1 });
  const said = (value: number | null): string => (value === null ? "–" : percent.format(value));
  const { likeness, likenessOfOthers: others } = card;
  const likenessText = words.likenessText(said(likeness.converted), said(likeness.recorded));
  const othersText = words.othersText(said(others.converted), said(others.before));
  const figures: (readonly [string, string])[] = [
    [words.learntFrom, words.minutesOfSpeech(minutes.format(card.seconds / 60))],
    ...unusedOf(card, words),
    [words.likeness, likenessText],
    [words.likenessOfOthers, othersText],
  ];
  if (card.words !== null && card.words.of > 0)
    figures.push([words.wordsWrong, percent.format(card.words.wrong / card.words.of)]);
  return figures;
}

/** What of the recordings was not learnt, and why; what is shorter than a second tells nothing. */
function unusedOf(card: OwnCharacterCard, words: OwnWords): (readonly [string, string])[] {
  const whole = new Intl.NumberFormat(words.language, { maximumFractionDigits: 0 });
  const parts = Object.entries(words.unusedReasons)
    .map(([reason, because]) => [card.unused[reason] ?? 0, because] as const)
    .filter(([seconds]) => seconds >= 1)
    .map(([seconds, because]) => words.unusedPart(whole.format(seconds), because));
  return parts.length === 0 ? [] : [[words.unused, parts.join(words.and)]];
}
