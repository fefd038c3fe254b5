/** Shows the page's state to the visitor. Reads the state and never changes it. */
import type { Character } from "@voice-avatar/client";
import { part } from "./elements.js";
import { nameOf } from "./characterList.js";
import { pageLimits } from "./setup.js";
import { type Scene, type Side, type Stage, STAGES, type State } from "./state.js";
import type { Sound } from "./sound.js";
import type { Words } from "./words.js";

export class View {
  readonly #headline = part("#headline", HTMLElement);
  readonly #lead = part("#lead", HTMLElement);
  readonly #status = part("#status", HTMLElement);
  readonly #ring = part("#ring", HTMLElement);
  readonly #face = part("#face", HTMLImageElement);
  readonly #main = part("#main", HTMLButtonElement);
  readonly #mainIcon = part("#main-icon", SVGUseElement);
  readonly #countdown = part("#countdown", HTMLElement);
  readonly #mainLabel = part("#main-label", HTMLElement);
  readonly #stages = part("#stages", HTMLElement);
  readonly #download = part("#download", HTMLAnchorElement);

  render(state: State): void {
    const { words, scene } = state;
    document.documentElement.lang = words.language;
    document.body.dataset["scene"] = scene;
    for (const place of document.querySelectorAll<HTMLElement>("[data-text]")) {
      const text = words[place.dataset["text"] as keyof Words];
      if (typeof text === "string") setText(place, text);
    }
    this.#renderLanguage(words);
    this.#renderHead(state);
    this.#renderMain(state);
    this.#renderStages(state);
    this.#renderProblem(state);
    this.#renderComparison(state);
    this.#renderActions(state);
    const chooses =
      ["start", "recording", "done"].includes(scene) || state.problem?.key === "unknown_character";
    show("#setup", chooses && state.character !== null);
    part("#setup", HTMLElement).inert = scene === "recording";
    show("#file-hint", state.wanted === "speak" && (scene === "start" || scene === "problem"));
    setText(this.#status, state.notice(words));
    this.#colour(state.character);
  }

  /** Seconds left, above the button; screen readers get them from the status line. */
  countdown(seconds: number, words: Words): void {
    const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
    setText(
      this.#countdown,
      new Intl.NumberFormat(words.language, digits).format(Math.max(0, seconds)),
    );
  }

  #renderLanguage(words: Words): void {
    const button = part("#language", HTMLButtonElement);
    button.lang = words.language === "ja" ? "en" : "ja";
    setText(button, words.otherLanguage);
  }

  #renderHead({ scene, words, character, mode, problem }: State): void {
    const name = nameOf(character, words);
    const limits = pageLimits(character);
    const number = new Intl.NumberFormat(words.language);
    const types = mode === "type";
    const texts: Record<Scene, readonly [string, string]> = {
      loading: [words.loading, ""],
      start: [
        words.headlineStart(name),
        types
          ? words.leadType
          : words.leadStart(number.format(limits.minSeconds), number.format(limits.maxSeconds)),
      ],
      recording: [words.headlineRecording, words.leadRecording],
      busy: [types ? words.headlineBusyText(name) : words.headlineBusy(name), words.leadBusy],
      done: types
        ? [words.headlineDoneText(name), words.leadDoneText]
        : [words.headlineDone(name), words.leadDone],
      problem: [problem === null ? "" : words.problems[problem.key][0], ""],
    };
    setText(this.#headline, texts[scene][0]);
    setText(this.#lead, texts[scene][1]);
  }

  #renderMain(state: State): void {
    const { scene, words, wanted, playing, canRetry, character } = state;
    const begin =
      wanted === "type" ? (["say", words.say] as const) : (["record", words.record] as const);
    const playback =
      playing === "converted" ? (["pause", words.pause] as const) : (["play", words.play] as const);
    const over = wanted === "type" ? (["say", words.typeAgain] as const) : begin;
    const retry = canRetry ? (["again", words.tryAgain] as const) : over;
    const looks: Record<Scene, readonly [string, string]> = {
      loading: ["record", ""],
      start: begin,
      recording: ["stop", words.stop],
      busy: ["cancel", words.cancel],
      done: playback,
      problem: retry,
    };
    const [icon, label] = looks[scene];
    this.#main.disabled = scene === "loading";
    this.#mainIcon.setAttribute("href", `#icon-${icon}`);
    setText(this.#mainLabel, label);
    this.#countdown.hidden = scene !== "recording";
    const name = nameOf(character, words);
    const spoken =
      scene === "done" && (playing === "converted" ? words.pauseOf(name) : words.playOf(name));
    this.#main.setAttribute("aria-label", spoken || label);
    this.#ring.toggleAttribute("data-busy", scene === "busy");
    const withFace = scene === "done" && character?.portraitUrl != null;
    if (withFace && this.#face.src !== character.portraitUrl)
      this.#face.src = character.portraitUrl;
    this.#face.hidden = !withFace;
  }

  #renderStages({ scene, mode, stage }: State): void {
    this.#stages.hidden = scene !== "busy";
    // A text is there with the request.
    part("[data-stage=uploading]", HTMLElement, this.#stages).hidden = mode === "type";
    const reached = STAGES.indexOf(stage);
    for (const item of this.#stages.children) {
      const index = STAGES.indexOf((item as HTMLElement).dataset["stage"] as Stage);
      item.classList.toggle("past", index < reached);
      item.toggleAttribute("aria-current", index === reached);
      if (index === reached) item.setAttribute("aria-current", "step");
    }
  }

  #renderProblem({ scene, problem, words }: State): void {
    const shown = scene === "problem" && problem !== null;
    show("#problem", shown);
    if (!shown) return;
    setText(part("#problem-text", HTMLElement), words.problems[problem.key][1]);
    setText(part("#problem-code", HTMLElement), words.code(problem.code ?? ""));
    show("#problem-code", problem.code !== null);
  }

  #renderComparison({ scene, words, character, own, converted, playing }: State): void {
    const name = nameOf(character, words);
    const visible =
      ["busy", "done", "problem"].includes(scene) && (own !== null || converted !== null);
    show("#comparison", visible);
    renderVoice("#own", own, words.you, playing === "own", words);
    renderVoice("#converted", converted, name, playing === "converted", words);
  }

  #renderActions(state: State): void {
    const { scene, words, wanted, download, canDelete, canRetry, setupChanged } = state;
    const types = wanted === "type";
    const done = scene === "done";
    const problem = scene === "problem";
    show("#actions", done || (problem && (canRetry || canDelete)));
    show("#download", done && download !== null);
    show("#again", done || (problem && canRetry));
    setText(part("#again", HTMLElement), types ? words.typeAgain : words.recordAgain);
    show("#convert-again", done && setupChanged);
    setText(part("#convert-again", HTMLElement), types ? words.sayAgain : words.convertAgain);
    show("#delete", canDelete && (done || problem));
    this.#offerDownload(download);
  }

  #offerDownload(download: State["download"]): void {
    if (download === null) {
      this.#download.removeAttribute("href");
    } else {
      this.#download.href = download.address;
      this.#download.download = download.name;
    }
  }

  #colour(character: Character | null): void {
    const colour = character?.colour ?? "";
    if (!/^#[0-9a-f]{6}$/i.test(colour)) return;
    document.documentElement.style.setProperty("--accent", colour);
  }
}

/** Marks how much of a waveform has been played. */
export function showPlayed(side: Side, fraction: number): void {
  part(`#${side}`, HTMLElement).style.setProperty("--played", fraction.toFixed(4));
}

function renderVoice(
  selector: string,
  sound: Sound | null,
  name: string,
  playing: boolean,
  words: Words,
): void {
  const row = part(selector, HTMLElement);
  row.hidden = sound === null;
  if (sound === null) return;
  const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  const length = new Intl.NumberFormat(words.language, digits).format(sound.seconds);
  setText(part(".who", HTMLElement, row), name);
  setText(part(".length", HTMLElement, row), words.seconds(length));
  part("button", HTMLButtonElement, row).setAttribute(
    "aria-label",
    playing ? words.pauseOf(name) : words.playOf(name),
  );
  part("use", SVGUseElement, row).setAttribute("href", playing ? "#icon-pause" : "#icon-play");
}

function show(selector: string, visible: boolean): void {
  part(selector, HTMLElement).hidden = !visible;
}

function setText(place: Element, text: string): void {
  // An unchanged text is not written again, because screen readers would repeat it.
  if (place.textContent !== text) place.textContent = text;
}
