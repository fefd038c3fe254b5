/** The text that the visitor types, and how the character is to speak it. */
import type { Character, TextRequest } from "@voice-avatar/client";
import { element, part } from "./elements.js";
import { listLanguages } from "./language.js";
import type { Words } from "./words.js";

type Wish = "speed" | "pitch" | "intonation" | "volume" | "pauses";

interface Range {
  readonly min: number;
  readonly max: number;
  readonly step: number;
  readonly usual: number;
}

/** As `POST /api/v1/voices` allows them. */
const RANGES: Readonly<Record<Wish, Range>> = {
  speed: { min: 0.5, max: 2, step: 0.05, usual: 1 },
  pitch: { min: -12, max: 12, step: 0.5, usual: 0 },
  intonation: { min: 0, max: 2, step: 0.05, usual: 1 },
  volume: { min: 0, max: 2, step: 0.05, usual: 1 },
  pauses: { min: 0, max: 4, step: 0.1, usual: 1 },
};
const WISHES = Object.keys(RANGES) as readonly Wish[];

export class Typing {
  readonly #text = part("#text", HTMLTextAreaElement);
  readonly #left = part("#text-left", HTMLElement);
  readonly #style = part("#style", HTMLSelectElement);
  readonly #sliders: Readonly<Record<Wish, HTMLInputElement>>;
  readonly #outputs: Readonly<Record<Wish, HTMLOutputElement>>;

  /** `onSay` is called by the button beside the text, and by Ctrl or Command and Enter in it. */
  constructor(onSay: () => void) {
    const place = part("#wishes", HTMLElement);
    const rows = WISHES.map((wish) => row(wish));
    place.replaceChildren(...rows.map(({ label }) => label));
    this.#sliders = byWish(rows.map(({ slider }) => slider));
    this.#outputs = byWish(rows.map(({ output }) => output));
    this.#text.addEventListener("input", () => this.#text.setCustomValidity(""));
    this.#text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
      event.preventDefault();
      onSay();
    });
    part("#say", HTMLButtonElement).addEventListener("click", onSay);
    part("#usual", HTMLButtonElement).addEventListener("click", () => this.#reset());
  }

  get text(): string {
    return this.#text.value;
  }

  /** What differs from the character's usual way of speaking. */
  get wishes(): Pick<TextRequest, Wish | "style"> {
    const changed = WISHES.map((wish) => [wish, this.#sliders[wish].valueAsNumber] as const).filter(
      ([wish, value]) => value !== RANGES[wish].usual,
    );
    const style = this.#style.value === "" ? {} : { style: Number(this.#style.value) };
    return { ...Object.fromEntries(changed), ...style };
  }

  /** Whether the text can be spoken; if not, the field says why. */
  check(character: Character | null, words: Words): boolean {
    const most = character?.text?.maxCharacters ?? Number.POSITIVE_INFINITY;
    const count = lengthOf(this.text);
    let fault = "";
    if (this.text.trim() === "") fault = words.textMissing;
    else if (count > most) fault = words.textTooLong(String(most));
    this.#text.setCustomValidity(fault);
    return this.#text.reportValidity();
  }

  /** Fills the field. */
  write(text: string): void {
    this.#text.value = text;
  }

  focus(): void {
    this.#text.focus();
  }

  render(character: Character | null, words: Words): void {
    const most = character?.text?.maxCharacters ?? Number.POSITIVE_INFINITY;
    const count = lengthOf(this.text);
    this.#left.textContent = Number.isFinite(most)
      ? words.textLength(String(count), String(most))
      : "";
    this.#left.classList.toggle("over", count > most);
    const languages = character?.text?.languages ?? [];
    this.#text.placeholder = words.textHint(listLanguages(languages, words, "disjunction"));
    this.#renderStyles(character, words);
    for (const wish of WISHES) {
      const value = wishText(wish, this.#sliders[wish].valueAsNumber, words);
      part("span", HTMLElement, this.#sliders[wish].parentElement ?? document).textContent =
        words[wish];
      this.#outputs[wish].textContent = value;
      this.#sliders[wish].setAttribute("aria-valuetext", value);
    }
  }

  #renderStyles(character: Character | null, words: Words): void {
    const styles = character?.text?.styles ?? [];
    part("#style-row", HTMLElement).hidden = styles.length < 2;
    const key = `${character?.id} ${words.language}`;
    if (this.#style.dataset["of"] === key) return;
    const chosen = this.#style.dataset["of"]?.startsWith(`${character?.id} `)
      ? this.#style.value
      : "";
    this.#style.dataset["of"] = key;
    this.#style.replaceChildren(
      ...styles.map(({ id, name, speaker }) => {
        const option = element("option", "", speaker === null ? name : `${speaker} – ${name}`);
        option.value = String(id);
        return option;
      }),
    );
    if (chosen !== "") this.#style.value = chosen;
  }

  #reset(): void {
    for (const wish of WISHES) this.#sliders[wish].value = String(RANGES[wish].usual);
    this.#text.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

/** Unicode characters, as the service counts them. */
export function lengthOf(text: string): number {
  return Array.from(text).length;
}

function row(wish: Wish): {
  label: HTMLElement;
  slider: HTMLInputElement;
  output: HTMLOutputElement;
} {
  const { min, max, step, usual } = RANGES[wish];
  const slider = element("input", "");
  Object.assign(slider, { type: "range", id: `wish-${wish}`, min, max, step });
  slider.value = String(usual);
  const output = element("output", "");
  output.htmlFor.value = slider.id;
  const label = element("label", "wish");
  label.append(element("span", ""), slider, output);
  return { label, slider, output };
}

function byWish<T>(values: readonly T[]): Record<Wish, T> {
  return Object.fromEntries(WISHES.map((wish, index) => [wish, values[index]])) as Record<Wish, T>;
}

function wishText(wish: Wish, value: number, words: Words): string {
  if (wish === "pitch") {
    const sign = new Intl.NumberFormat(words.language, { signDisplay: "exceptZero" });
    return words.semitones(sign.format(value));
  }
  return new Intl.NumberFormat(words.language, { style: "percent" }).format(value);
}
