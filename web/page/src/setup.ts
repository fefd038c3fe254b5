/** What the visitor chooses before speaking: the character and its pitch. */
import type { Character } from "@voice-avatar/client";
import { element, part } from "./elements.js";
import type { Words } from "./words.js";

export class Setup {
  readonly #form = part("#setup", HTMLFormElement);
  readonly #list = part("#characters", HTMLElement);
  readonly #semitones = part("#semitones", HTMLElement);
  readonly #shift = part("#shift", HTMLInputElement);
  readonly #shiftValue = part("#shift-value", HTMLOutputElement);
  #characters: readonly Character[] = [];

  constructor(onChange: () => void) {
    this.#form.addEventListener("input", onChange);
    this.#form.addEventListener("submit", (event) => event.preventDefault());
  }

  offer(characters: readonly Character[]): void {
    this.#characters = characters;
    this.#list.lang = "";
  }

  /** The chosen character; the first one until another is chosen. */
  get character(): Character | null {
    const chosen = new FormData(this.#form).get("character");
    return this.#characters.find(({ id }) => id === chosen) ?? this.#characters[0] ?? null;
  }

  /** `"auto"`, or semitones. */
  get pitchShift(): "auto" | number {
    return new FormData(this.#form).get("pitch") === "hand" ? this.#shift.valueAsNumber : "auto";
  }

  render(words: Words): void {
    if (this.#list.lang !== words.language) {
      const chosen = this.character;
      this.#list.lang = words.language;
      this.#list.replaceChildren(
        ...this.#characters.map((each) => card(each, words, each.id === chosen?.id)),
      );
    }
    this.#semitones.hidden = this.pitchShift === "auto";
    const sign = new Intl.NumberFormat(words.language, { signDisplay: "exceptZero" });
    const text = words.semitones(sign.format(this.#shift.valueAsNumber));
    this.#shiftValue.textContent = text;
    this.#shift.setAttribute("aria-valuetext", text);
    this.#shift.setAttribute("aria-label", words.pitch);
  }
}

/** The page records 1 to 10 s, even if the character allows other lengths. */
export function pageLimits(character: Character | null): Character["limits"] {
  const { minSeconds = 1, maxSeconds = 10 } = character?.limits ?? {};
  return { minSeconds: Math.max(minSeconds, 1), maxSeconds: Math.min(maxSeconds, 10) };
}

export function nameOf(character: Character | null, words: Words): string {
  return character?.name[words.language] ?? character?.name["en"] ?? character?.id ?? "";
}

function card(character: Character, words: Words, chosen: boolean): HTMLElement {
  const name = nameOf(character, words);
  const choice = element("input", "");
  Object.assign(choice, { type: "radio", name: "character", value: character.id, checked: chosen });
  const title = element("span", "name", name);
  const label = element("label", "card");
  label.append(choice, portrait(character, name), title);
  const credit = element("p", "small");
  const facts = [
    character.credit,
    linked(character.licence.name, character.licence.url),
    linked(character.termsUrl === null ? "" : words.terms, character.termsUrl),
  ].filter((fact) => fact !== "");
  credit.append(...facts.flatMap((fact, index) => (index === 0 ? [fact] : [" · ", fact])));
  const item = element("div", "character");
  item.append(label, credit);
  return item;
}

function linked(text: string, address: string | null): string | HTMLElement {
  if (text === "" || address === null) return text;
  const link = element("a", "", text);
  Object.assign(link, { href: address, target: "_blank", rel: "noopener noreferrer" });
  return link;
}

function portrait(character: Character, name: string): HTMLElement {
  const frame = element("span", "portrait");
  frame.setAttribute("aria-hidden", "true");
  const monogram = element("span", "monogram", Array.from(name)[0] ?? "");
  if (character.portraitUrl === null) {
    frame.append(monogram);
    return frame;
  }
  const image = element("img", "");
  image.alt = "";
  image.addEventListener("error", () => image.replaceWith(monogram), { once: true });
  image.src = character.portraitUrl;
  frame.append(image);
  return frame;
}
