/** Lets the visitor make a video of the result that is shown, and save or share it. */
import type { Character } from "@voice-avatar/client";
import { creditOf, nameOf } from "./characterList.js";
import type { Shape } from "./clip.js";
import { part } from "./elements.js";
import { fileName } from "./files.js";
import type { Sound } from "./sound.js";
import { canShare, shareFile } from "./visit.js";
import type { Words } from "./words.js";

/** The result of which a clip can be made. */
interface Shown {
  readonly character: Character;
  readonly own: Sound | null;
  readonly converted: Sound;
  /** The text that is spoken; empty where the visitor has spoken. */
  readonly caption: string;
}

type Status = "clipMaking" | "clipReady" | "clipFailed";

export class ClipMaker {
  readonly #place = part("#clip", HTMLDetailsElement);
  readonly #save = part("#clip-save", HTMLAnchorElement);
  readonly #share = part("#clip-share", HTMLButtonElement);
  readonly #status = part("#clip-status", HTMLElement);
  readonly #onBegin: () => void;
  #shown: Shown | null = null;
  #words: Words | null = null;
  #told: Status | null = null;
  #file: File | null = null;

  /** `onBegin` silences whatever is heard. */
  constructor(onBegin: () => void) {
    this.#onBegin = onBegin;
    for (const button of this.#place.querySelectorAll<HTMLButtonElement>("[data-shape]"))
      button.addEventListener("click", () => void this.#make(button.dataset["shape"] as Shape));
    this.#share.addEventListener("click", () => {
      if (this.#file !== null) void shareFile(this.#file);
    });
  }

  /** Offers a clip of this result, or none. */
  render(shown: Shown | null, words: Words): void {
    this.#words = words;
    this.#place.hidden = shown?.converted.isDecoded !== true;
    if (shown?.converted !== this.#shown?.converted) this.#forget();
    this.#shown = shown;
    this.#tell(this.#told);
  }

  async #make(shape: Shape): Promise<void> {
    const [shown, words] = [this.#shown, this.#words];
    if (shown === null || words === null || this.#told === "clipMaking") return;
    this.#forget();
    this.#onBegin();
    this.#tell("clipMaking");
    const { character } = shown;
    try {
      // Loaded here, because few visitors make one.
      const { recordClip } = await import("./clip.js");
      const texts = {
        name: nameOf(character, words),
        credit: creditOf(character, words),
        notice: words.clipNotice,
      };
      const blob = await recordClip({ ...shown, ...texts }, shape);
      if (this.#shown?.converted === shown.converted) this.#offer(blob, character);
    } catch {
      this.#tell("clipFailed");
    }
  }

  #offer(blob: Blob, character: Character): void {
    const name = fileName(character, blob.type, new Date());
    this.#file = new File([blob], name, { type: blob.type });
    this.#save.href = URL.createObjectURL(this.#file);
    this.#save.download = name;
    this.#save.hidden = false;
    this.#share.hidden = !canShare(this.#file);
    this.#tell("clipReady");
  }

  #forget(): void {
    if (this.#save.href !== "") URL.revokeObjectURL(this.#save.href);
    this.#save.removeAttribute("href");
    this.#save.hidden = true;
    this.#share.hidden = true;
    this.#file = null;
    this.#tell(null);
  }

  #tell(status: Status | null): void {
    this.#told = status;
    const text = status === null ? "" : (this.#words?.[status] ?? "");
    if (this.#status.textContent !== text) this.#status.textContent = text;
  }
}
