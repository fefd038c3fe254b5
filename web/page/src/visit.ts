/** What was made in this visit: each can be played, saved, shared and deleted. */
import type { Character, VoiceAvatar, VoiceResult } from "@voice-avatar/client";
import { nameOf } from "./characterList.js";
import { element, part } from "./elements.js";
import { fileName } from "./files.js";
import { Player } from "./sound.js";
import { keepInTab, keptInTab } from "./tab.js";
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

/** One result as it is kept for a reload, with the address from which it is fetched again. */
interface Kept {
  readonly voiceId: string;
  readonly character: string;
  readonly result: Pick<VoiceResult, "url" | "contentType">;
  readonly seconds: number;
  readonly at: number;
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
  /** Their addresses, by voice. */
  readonly #results = new Map<string, Kept["result"]>();
  /** The voices that are about to be deleted: their rows are gone, but may come back. */
  readonly #hidden = new Set<string>();
  #heard: Made | null = null;
  #address = "";
  #shown = "";

  constructor(events: VisitEvents) {
    this.#events = events;
  }

  add(made: Made): void {
    this.#made = [made, ...this.#made].slice(0, MOST);
  }

  /** Keeps the result's address, so that it is here after a reload, too. */
  keep(voiceId: string, { url, contentType }: VoiceResult): void {
    this.#results.set(voiceId, { url, contentType });
    this.#store();
  }

  /** Fetches what was made before the page was loaded again; what is gone is left out. */
  async restore(client: VoiceAvatar, characters: readonly Character[]): Promise<void> {
    const kept = keptInTab("visit");
    if (this.#made.length > 0 || !Array.isArray(kept)) return;
    const found = await Promise.all(
      (kept as Kept[]).map(async (each) => {
        const character = characters.find(({ id }) => id === each.character);
        if (character === undefined) return null;
        try {
          const nothing = { urlExpiresAt: null, bytes: null, seconds: null, sha256: null };
          const blob = await client.download({ ...each.result, ...nothing });
          const at = new Date(each.at);
          const { contentType: type } = each.result;
          const file = new File([blob], fileName(character, type, at), { type });
          this.#results.set(each.voiceId, each.result);
          return { voiceId: each.voiceId, character, file, seconds: each.seconds, at };
        } catch {
          return null;
        }
      }),
    );
    this.#made = [...this.#made, ...found.filter((each) => each !== null)].slice(0, MOST);
    this.#store();
  }

  /** Whether a voice is in the list, so that its deletion can be taken back. */
  has(voiceId: string): boolean {
    return this.#made.some((each) => each.voiceId === voiceId);
  }

  /** Hides a voice that is about to be deleted. */
  hide(voiceId: string): void {
    this.#hidden.add(voiceId);
    if (this.#heard?.voiceId === voiceId) this.silence();
  }

  /** Shows a voice again that was to be deleted. */
  unhide(voiceId: string): void {
    this.#hidden.delete(voiceId);
  }

  forget(voiceId: string): void {
    if (this.#heard?.voiceId === voiceId) this.silence();
    this.#made = this.#made.filter((each) => each.voiceId !== voiceId);
    this.#results.delete(voiceId);
    this.#store();
  }

  #store(): void {
    const kept = this.#made.flatMap(({ voiceId, character, seconds, at }) => {
      const result = this.#results.get(voiceId);
      const facts = { voiceId, character: character.id, seconds, at: at.getTime() };
      return result === undefined ? [] : [{ ...facts, result }];
    });
    keepInTab("visit", kept);
  }

  silence(): void {
    this.#player.pause();
  }

  /** Shows all but the voice that the page shows anyway; `isVisible`: whether there is room for it. */
  render(words: Words, isVisible: boolean, shown: string | null): void {
    const listed = this.#made.filter(
      ({ voiceId }) => voiceId !== shown && !this.#hidden.has(voiceId),
    );
    this.#section.hidden = !isVisible || listed.length === 0;
    const wanted = `${words.language} ${listed.map(({ voiceId }) => voiceId).join()}`;
    if (this.#shown === wanted) return;
    this.#shown = wanted;
    this.#list.replaceChildren(...listed.map((made) => this.#row(made, words)));
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
