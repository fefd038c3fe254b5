/** What was made in this visit: each can be played, saved, shared and deleted. */
import type { Character } from "@voice-avatar/client";
import { nameOf } from "./characterList.js";
import { element, part } from "./elements.js";
import { Player } from "./sound.js";
import type { Words } from "./words.js";

/** The oldest are forgotten, because their sound fills the memory. */
const MOST = 30;

/** One result. */
export interface Made {
  readonly voiceId: string;
  readonly character: Character;
  /** The sound, under the name with which it is saved. */
  readonly file: File;
  readonly seconds: number;
  readonly at: Date;
}

export interface VisitEvents {
  /** The visitor hears one of the list: everything else becomes silent. */
  readonly onPlay: () => void;
  readonly onDelete: (made: Made) => void;
}

export class Visit {
  readonly #section = part("#visit", HTMLElement);
  readonly #list = part("#visit ol", HTMLElement);
  readonly #events: VisitEvents;
  readonly #player = new Player((playing) => this.#played(playing));
  #made: readonly Made[] = [];
  #heard: Made | null = null;
  #address = "";
  #shown = "";

  constructor(events: VisitEvents) {
    this.#events = events;
  }

  add(made: Made): void {
    this.#made = [made, ...this.#made].slice(0, MOST);
  }

  forget(voiceId: string): void {
    if (this.#heard?.voiceId === voiceId) this.silence();
    this.#made = this.#made.filter((each) => each.voiceId !== voiceId);
  }

  silence(): void {
    this.#player.pause();
  }

  /** `isVisible`: whether the visitor has nothing else to look at. */
  render(words: Words, isVisible: boolean): void {
    this.#section.hidden = !isVisible || this.#made.length === 0;
    const wanted = `${words.language} ${this.#made.map(({ voiceId }) => voiceId).join()}`;
    if (this.#shown === wanted) return;
    this.#shown = wanted;
    this.#list.replaceChildren(...this.#made.map((made) => this.#row(made, words)));
    this.#played(this.#player.playing);
  }

  #row(made: Made, words: Words): HTMLElement {
    const time = new Intl.DateTimeFormat(words.language, { timeStyle: "short" }).format(made.at);
    const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
    const length = new Intl.NumberFormat(words.language, digits).format(made.seconds);
    const name = nameOf(made.character, words);
    const title = `${name}, ${time}`;
    const row = element("li", "made");
    row.dataset["of"] = made.voiceId;
    const play = element("button", "play-one", words.play);
    play.addEventListener("click", () => this.#toggle(made));
    const save = element("a", "", words.download);
    save.download = made.file.name;
    // The address exists only while it is needed, so that nothing has to be revoked later.
    save.href = "#";
    save.addEventListener("click", () => this.#lend(save, made));
    const share = element("button", "link", words.share);
    share.hidden = !canShare(made.file);
    share.addEventListener("click", () => void shareFile(made.file));
    const remove = element("button", "link danger-text", words.deleteNow);
    remove.addEventListener("click", () => this.#events.onDelete(made));
    for (const button of [play, share, remove]) button.type = "button";
    for (const each of [play, save, share, remove])
      each.setAttribute("aria-label", `${each.textContent}: ${title}`);
    const label = element("span", "", title);
    label.append(element("span", "small", ` ${words.seconds(length)}`));
    row.append(play, label, save, share, remove);
    return row;
  }

  #lend(link: HTMLAnchorElement, made: Made): void {
    link.href = URL.createObjectURL(made.file);
    const { href } = link;
    setTimeout(() => {
      URL.revokeObjectURL(href);
      link.href = "#";
    }, 10_000);
  }

  #toggle(made: Made): void {
    if (this.#heard === made && this.#player.playing) {
      this.silence();
      return;
    }
    this.#events.onPlay();
    URL.revokeObjectURL(this.#address);
    this.#address = URL.createObjectURL(made.file);
    this.#heard = made;
    this.#player.load(this.#address, made.seconds);
    this.#player.play().catch(() => undefined);
  }

  #played(playing: boolean): void {
    for (const row of this.#list.querySelectorAll<HTMLElement>("li"))
      row.classList.toggle("playing", playing && row.dataset["of"] === this.#heard?.voiceId);
  }
}

/** Whether the system has a share sheet that takes the file. */
export function canShare(file: File): boolean {
  return "canShare" in navigator && navigator.canShare({ files: [file] });
}

/** Hands a file to the system's share sheet; nothing happens if the visitor closes it. */
export async function shareFile(file: File): Promise<void> {
  await navigator.share({ files: [file], title: file.name }).catch(() => undefined);
}
