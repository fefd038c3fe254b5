/** The list of characters to choose from: a few with their credits, or many to search through. */
import type { Character } from "@voice-avatar/client";
import { element, part } from "./elements.js";
import { listLanguages } from "./language.js";
import { type Mode, takes } from "./modes.js";
import type { Words } from "./words.js";

/** More than so many are shown close together, with a search field. */
const FEW = 6;
const SVG = "http://www.w3.org/2000/svg";
/** What stays visible above the chosen character. */
const MARGIN_PIXELS = 12;

interface Entry {
  readonly character: Character;
  readonly card: HTMLElement;
  readonly choice: HTMLInputElement;
  /** Says what the character cannot do. */
  readonly inability: HTMLElement;
  /** What the search looks through. */
  readonly text: string;
}

export class CharacterList {
  readonly #search = part("#search", HTMLInputElement);
  readonly #list = part("#characters", HTMLElement);
  readonly #found = part("#found", HTMLElement);
  readonly #credit = part("#credit", HTMLElement);
  #characters: readonly Character[] = [];
  #entries: readonly Entry[] = [];
  /** The choice before the list was replaced. */
  #wished: string | undefined;
  #words: Words | null = null;
  /** The first character that the search has found. */
  #first: HTMLInputElement | null = null;

  constructor() {
    this.#search.addEventListener("input", (event) => {
      // What is typed into the search field is no choice yet.
      event.stopPropagation();
      if (this.#words !== null) this.#filter(this.#words);
      this.#scrollToChosen();
    });
    this.#search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "ArrowDown") return;
      event.preventDefault();
      this.#chooseFirstFound();
    });
  }

  /** Replaces the characters; the chosen one stays chosen if it is still among them. */
  offer(characters: readonly Character[]): void {
    const chosen = this.character?.id;
    this.#characters = characters;
    this.#entries = [];
    this.#words = null;
    this.#wished = chosen;
  }

  /** The chosen character; the first one until another is chosen. */
  get character(): Character | null {
    const chosen = this.#entries.find(({ choice }) => choice.checked)?.character;
    const wished = this.#characters.find(({ id }) => id === this.#wished);
    return chosen ?? wished ?? this.#characters[0] ?? null;
  }

  get characters(): readonly Character[] {
    return this.#characters;
  }

  choose({ id }: Character): void {
    const chosen = this.#entries.find(({ character }) => character.id === id);
    if (chosen !== undefined) chosen.choice.checked = true;
    this.#wished = id;
  }

  /** Shows the characters, and which of them cannot do what the visitor wants. */
  render(words: Words, mode: Mode): void {
    if (this.#words !== words) this.#build(words);
    for (const { character, card, choice, inability } of this.#entries) {
      const sample = card.querySelector<HTMLElement>(".sample");
      // Nobody wants to step over hundreds of buttons with the keyboard.
      if (sample !== null) sample.tabIndex = choice.checked || !this.#isLong ? 0 : -1;
      const isAble = takes(character, mode);
      card.classList.toggle("unable", !isAble);
      inability.hidden = isAble;
      inability.textContent = mode === "type" ? words.speechOnly : words.textOnly;
    }
    this.#showCredit(words);
  }

  get #isLong(): boolean {
    return this.#characters.length > FEW;
  }

  #build(words: Words): void {
    const chosen = this.character?.id;
    this.#words = words;
    this.#entries = this.#characters.map((each) =>
      entry(each, words, { chosen: each.id === chosen, withCredit: !this.#isLong }),
    );
    this.#list.classList.toggle("many", this.#isLong);
    this.#list.replaceChildren(...this.#entries.map(({ card }) => card));
    part("#searching", HTMLElement).hidden = !this.#isLong;
    this.#search.placeholder = words.searchCharacters(number(this.#characters.length, words));
    this.#search.setAttribute("aria-label", this.#search.placeholder);
    this.#filter(words);
    this.#scrollToChosen();
  }

  /** Hides what does not match. The chosen one stays, so that the keyboard still reaches the list. */
  #filter(words: Words): void {
    const wanted = this.#isLong ? folded(this.#search.value).split(" ") : [];
    const found: HTMLInputElement[] = [];
    for (const { card, choice, text } of this.#entries) {
      const matches = wanted.every((word) => text.includes(word));
      card.hidden = !matches && !choice.checked;
      if (matches) found.push(choice);
    }
    this.#first = found[0] ?? null;
    const isSearching = this.#search.value.trim() !== "";
    this.#found.textContent = isSearching ? words.charactersFound(number(found.length, words)) : "";
  }

  #chooseFirstFound(): void {
    if (this.#first === null) return;
    this.#first.checked = true;
    this.#first.focus();
    this.#first.dispatchEvent(new Event("input", { bubbles: true }));
  }

  #scrollToChosen(): void {
    const chosen = this.#entries.find(({ choice }) => choice.checked)?.card;
    if (!this.#isLong || chosen === undefined) return;
    this.#list.scrollTop = chosen.offsetTop - MARGIN_PIXELS;
  }

  #showCredit(words: Words): void {
    const { character } = this;
    const isShown = this.#isLong && character !== null;
    this.#credit.hidden = !isShown;
    const key = `${words.language} ${character?.id}`;
    if (!isShown || this.#credit.dataset["of"] === key) return;
    this.#credit.dataset["of"] = key;
    this.#credit.replaceChildren(foldedCredit(character, words));
  }
}

/** Who is to be named for the character's voice. */
export function creditOf(character: Character, words: Words): string {
  return character.credits[words.language] ?? character.credit;
}

export function nameOf(character: Character | null, words: Words): string {
  return character?.name[words.language] ?? character?.name["en"] ?? character?.id ?? "";
}

/** The kind of the character's voice, and the languages in which it speaks text. */
function kindOf({ description, text }: Character, words: Words): string {
  const languages = listLanguages(text?.languages ?? [], words, "conjunction");
  const facts = [description[words.language] ?? "", languages];
  return facts.filter((fact) => fact !== "").join(" · ");
}

/** What stands for a character without a portrait. */
export function initialOf(name: string): string {
  return Array.from(name)[0] ?? "";
}

/** The same letters in the same form: case, width and kind of kana do not count. */
export function folded(text: string): string {
  return text
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[\u30a1-\u30f6]/g, (kana) => String.fromCharCode(kana.charCodeAt(0) - 0x60))
    .replace(/\s+/g, " ")
    .trim();
}

function number(value: number, words: Words): string {
  return new Intl.NumberFormat(words.language).format(value);
}

function entry(
  character: Character,
  words: Words,
  { chosen, withCredit }: { chosen: boolean; withCredit: boolean },
): Entry {
  const name = nameOf(character, words);
  const choice = element("input", "");
  Object.assign(choice, { type: "radio", name: "character", value: character.id, checked: chosen });
  const label = element("label", "card");
  const inability = element("span", "inability small");
  const named = element("span", "named");
  const kind = element("span", "kind small", kindOf(character, words));
  named.append(element("span", "name", name), inability, kind);
  label.append(choice, portrait(character, name), named);
  const card = element("div", "character");
  card.append(label);
  if (takes(character, "type")) card.append(sampleButton(character, words));
  if (withCredit) {
    card.append(foldedCredit(character, words));
  }
  const text = folded([...Object.values(character.name), character.id, character.credit].join(" "));
  return { character, card, choice, inability, text };
}

function sampleButton(character: Character, words: Words): HTMLElement {
  const button = element("button", "sample");
  button.type = "button";
  button.dataset["of"] = character.id;
  button.setAttribute("aria-label", words.sampleOf(nameOf(character, words)));
  const icon = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  icon.setAttribute("class", "icon");
  icon.setAttribute("aria-hidden", "true");
  use.setAttribute("href", "#icon-play");
  icon.append(use);
  button.append(icon);
  return button;
}

function foldedCredit(character: Character, words: Words): HTMLElement {
  const details = element("details", "credits small");
  const facts = element("p", "");
  facts.append(...credit(character, words));
  details.append(element("summary", "", words.credits), facts);
  return details;
}

function credit(character: Character, words: Words): (string | HTMLElement)[] {
  return [
    creditOf(character, words),
    linked(character.licence.name, character.licence.url),
    linked(character.termsUrl === null ? "" : words.terms, character.termsUrl),
  ]
    .filter((fact) => fact !== "")
    .flatMap((fact, index) => (index === 0 ? [fact] : [" · ", fact]));
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
  const initial = element("span", "initial", initialOf(name));
  // Not the colour of the character that is chosen.
  if (character.colour !== null) initial.style.setProperty("--accent", character.colour);
  if (character.portraitUrl === null) {
    frame.append(initial);
    return frame;
  }
  const image = element("img", "");
  Object.assign(image, { alt: "", loading: "lazy", decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(initial), { once: true });
  image.src = character.portraitUrl;
  frame.append(image);
  return frame;
}
