/** What the visitor chooses: the character, speaking or typing, and how it is to sound. */
import type { Character } from "@voice-avatar/client";
import { CharacterList } from "./characterList.js";
import { part } from "./elements.js";
import { keepInTab, keptInTab } from "./tab.js";
import { type Mode, takes } from "./modes.js";
import { Typing } from "./typing.js";
import type { Words } from "./words.js";

export class Setup {
  readonly typing: Typing;
  readonly #form = part("#setup", HTMLFormElement);
  readonly #list = new CharacterList();
  readonly #semitones = part("#semitones", HTMLElement);
  readonly #shift = part("#shift", HTMLInputElement);
  readonly #shiftValue = part("#shift-value", HTMLOutputElement);

  readonly #canHear: boolean;
  /** Whether the visitor has chosen between speaking and typing; until then the character decides. */
  #hasChosen = false;

  /** `canHear`: whether the service lets visitors hear the character while they speak. */
  constructor(
    events: { readonly onChange: () => void; readonly onSay: () => void },
    canHear: boolean,
  ) {
    this.#canHear = canHear;
    this.typing = new Typing(events.onSay);
    this.#form.addEventListener("input", events.onChange);
    part("#ask", HTMLElement).addEventListener("input", ({ target }) => {
      this.#hasChosen ||= target instanceof HTMLInputElement;
      events.onChange();
    });
    this.#form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** Shows these characters from now on. */
  offer(characters: readonly Character[]): void {
    this.#list.offer(characters);
  }

  /** Keeps what is chosen and typed, for a reload. */
  keep(): void {
    const { mode, typing, character } = this;
    const chosen = this.#hasChosen ? mode : null;
    keepInTab("setup", { character: character?.id, mode: chosen, text: typing.text });
  }

  /** Chooses and types what was kept before the page was loaded again. */
  restore(): void {
    const kept = keptInTab("setup");
    if (typeof kept !== "object" || kept === null) return;
    const { character, mode, text } = kept as Record<string, unknown>;
    const chosen = this.characters.find(({ id }) => id === character);
    if (chosen !== undefined) this.#list.choose(chosen);
    if (typeof text === "string") this.typing.write(text);
    if (mode === "speak" || mode === "type") this.choose(mode);
  }

  /** Chooses one of the characters that are shown. */
  prefer(character: Character): void {
    this.#list.choose(character);
  }

  get characters(): readonly Character[] {
    return this.#list.characters;
  }

  get character(): Character | null {
    return this.#list.character;
  }

  /** What the visitor wants, whether or not the character can do it. */
  get mode(): Mode {
    if (!this.#hasChosen) return takes(this.character, "speak") ? "speak" : "type";
    return this.#value("mode") === "type" ? "type" : "speak";
  }

  /** Whether the character can do what the visitor wants. */
  get isPossible(): boolean {
    return takes(this.character, this.mode);
  }

  /** Whether some character takes speech, and some character text. */
  get hasModes(): boolean {
    const { characters } = this.#list;
    return (["speak", "type"] as const).every((mode) =>
      characters.some((each) => takes(each, mode)),
    );
  }

  /** `"auto"`, or semitones. */
  get pitchShift(): "auto" | number {
    return this.#value("pitch") === "hand" ? this.#shift.valueAsNumber : "auto";
  }

  /** Whether the visitor wants to hear the character while speaking. */
  get hears(): boolean {
    return this.#canHear && this.mode === "speak" && this.#value("hear") === "on";
  }

  /** Everything that changes the result, for comparison. */
  get summary(): string {
    const { mode, pitchShift, typing } = this;
    const wishes = mode === "type" ? [typing.text, typing.wishes] : pitchShift;
    return JSON.stringify([this.character?.id, mode, wishes]);
  }

  /** Chooses for the visitor; a character that cannot do it is replaced by the first that can. */
  choose(mode: Mode): void {
    this.#hasChosen = true;
    part(`[name=mode][value=${mode}]`, HTMLInputElement).checked = true;
    const able = this.#list.characters.find((each) => takes(each, mode));
    if (!this.isPossible && able !== undefined) this.#list.choose(able);
  }

  render(words: Words): void {
    const { mode } = this;
    part(`[name=mode][value=${mode}]`, HTMLInputElement).checked = true;
    this.#list.render(words, mode);
    const types = mode === "type";
    for (const place of this.#form.querySelectorAll<HTMLElement>("[data-mode]"))
      place.hidden = (place.dataset["mode"] === "type") !== types;
    part("#hear", HTMLElement).hidden = types || !this.#canHear;
    if (types) this.typing.render(this.character, words);
    this.#renderPitch(words);
  }

  #renderPitch(words: Words): void {
    this.#semitones.hidden = this.pitchShift === "auto";
    const sign = new Intl.NumberFormat(words.language, { signDisplay: "exceptZero" });
    const text = words.semitones(sign.format(this.#shift.valueAsNumber));
    this.#shiftValue.textContent = text;
    this.#shift.setAttribute("aria-valuetext", text);
    this.#shift.setAttribute("aria-label", words.pitch);
  }

  #value(name: string): unknown {
    return new FormData(this.#form).get(name);
  }
}

/** The page records 1 to 10 s, even if the character allows other lengths. */
export function pageLimits(character: Character | null): Character["limits"] {
  const { minSeconds = 1, maxSeconds = 10 } = character?.limits ?? {};
  return { minSeconds: Math.max(minSeconds, 1), maxSeconds: Math.min(maxSeconds, 10) };
}
