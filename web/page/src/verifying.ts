/** "Was this made here?": asks the service about a file that the visitor chooses. */
import { type Verification, type VoiceAvatar, VoiceAvatarError } from "@voice-avatar/client";
import { part } from "./elements.js";
import { type Language, WORDS } from "./words.js";

type Shown = Verification | "nothing" | "verifyBusy" | "verifyFailed" | "verifyLater";

/** Failures that pass; every other one is the file's. */
const PASSING = new Set(["network", "rate_limited", "request_timeout", "unavailable"]);

export class Verifying {
  readonly #avatar: VoiceAvatar;
  readonly #answer = part("#verify-answer", HTMLElement);
  readonly #file = part("#verify-file", HTMLInputElement);
  #language: Language;
  #shown: Shown = "nothing";

  constructor(avatar: VoiceAvatar, language: Language) {
    this.#avatar = avatar;
    this.#language = language;
    const place = part("#verify", HTMLDetailsElement);
    if (location.hash === "#verify") place.open = true;
    this.#file.addEventListener("change", () => void this.#verify());
  }

  speak(language: Language): void {
    this.#language = language;
    this.#show(this.#shown);
  }

  async #verify(): Promise<void> {
    const file = this.#file.files?.[0];
    if (file === undefined) return;
    this.#show("verifyBusy");
    try {
      this.#show(await this.#avatar.verify(file));
    } catch (error) {
      const passes = error instanceof VoiceAvatarError && PASSING.has(error.code);
      this.#show(passes ? "verifyLater" : "verifyFailed");
    }
  }

  #show(shown: Shown): void {
    this.#shown = shown;
    this.#answer.dataset["verdict"] = typeof shown === "string" ? shown : shown.verdict;
    this.#answer.textContent =
      shown === "nothing"
        ? ""
        : typeof shown === "string"
          ? WORDS[this.#language][shown]
          : (shown.sentences[this.#language] ?? "");
  }
}
