/** Shows the page's state to the visitor. Reads the state and never changes it. */
import type { Character } from "@voice-avatar/client";
import { element, part } from "./elements.js";
import type { Face } from "./face.js";
import { nameOf } from "./characterList.js";
import { takes } from "./modes.js";
import { isOfTheMicrophone } from "./problems.js";
import { pageLimits } from "./setup.js";
import type { Operator } from "./site.js";
import { canShare } from "./visit.js";
import { type Scene, type Side, type Stage, STAGES, type State } from "./state.js";
import type { Sound } from "./sound.js";
import type { Words } from "./words.js";

export class View {
  readonly #headline = part("#headline", HTMLElement);
  readonly #lead = part("#lead", HTMLElement);
  readonly #status = part("#status", HTMLElement);
  readonly #ring = part("#ring", HTMLElement);
  readonly #face: Face;
  readonly #main = part("#main", HTMLButtonElement);
  readonly #mainIcon = part("#main-icon", SVGUseElement);
  readonly #countdown = part("#countdown", HTMLElement);
  readonly #mainLabel = part("#main-label", HTMLElement);
  readonly #stages = part("#stages", HTMLElement);
  readonly #download = part("#download", HTMLAnchorElement);
  readonly #operator: Operator;

  constructor(face: Face, operator: Operator) {
    this.#face = face;
    this.#operator = operator;
  }

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
    this.#renderAsk(state);
    const chooses = ["start", "recording", "done", "problem"].includes(scene);
    show("#setup", chooses && state.character !== null);
    part("#setup", HTMLElement).inert = scene === "recording";
    show("#file-hint", state.wanted === "speak" && (scene === "start" || scene === "problem"));
    setText(this.#status, state.notice(words) || inability(state));
    show("#undo", state.canUndo);
    this.#renderOperator(words, scene);
    this.#colour(speakerOf(state));
  }

  /** Tells before anything is recorded or typed where it goes, and whom to ask. */
  #renderOperator(words: Words, scene: Scene): void {
    const place = part("#before", HTMLElement);
    place.hidden = scene !== "start" && scene !== "problem";
    if (place.dataset["language"] === words.language) return;
    place.dataset["language"] = words.language;
    const { name, contact, privacy } = this.#operator;
    const address = contact?.includes("@") === true ? `mailto:${contact}` : contact;
    place.replaceChildren(words.before(name ?? ""));
    for (const [text, href] of [
      [words.privacyPolicy, privacy],
      [words.contact, address],
    ] as const) {
      if (!href) continue;
      const link = element("a", "", text);
      Object.assign(link, { href, target: "_blank", rel: "noopener noreferrer" });
      place.append(" ", link);
    }
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

  /** Speaking or typing, and the field to type in. */
  #renderAsk({ scene, hasModes, wanted, character, words, setupChanged }: State): void {
    const asks = ["start", "recording", "done", "problem"].includes(scene);
    show("#ask", asks && (hasModes || wanted === "type"));
    show("#mode", hasModes);
    show("#typing", wanted === "type");
    const say = part("#say", HTMLButtonElement);
    say.disabled = !takes(character, "type");
    // What is said already has a button of its own for what has changed.
    say.parentElement?.toggleAttribute("hidden", scene === "done" && setupChanged);
    setText(say, words.say);
    part("#ask", HTMLElement).inert = scene === "recording";
    document.body.dataset["wanted"] = wanted;
  }

  #renderHead(state: State): void {
    const { scene, words, character, mode, wanted, problem } = state;
    const name = nameOf(speakerOf(state), words);
    const limits = pageLimits(character);
    const number = new Intl.NumberFormat(words.language);
    const types = mode === "type";
    const texts: Record<Scene, readonly [string, string]> = {
      loading: [words.loading, ""],
      start: [
        words.headlineStart(name),
        wanted === "type"
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
    const { scene, words, wanted, playing, character } = state;
    const [icon, label] = look(state);
    const begins = scene === "start" || scene === "problem" || state.wantsAnother;
    this.#main.disabled = scene === "loading" || (begins && !takes(character, wanted));
    // The button beside the text says it.
    this.#main.hidden = icon === "say";
    this.#mainIcon.setAttribute("href", `#icon-${icon}`);
    setText(this.#mainLabel, label);
    this.#countdown.hidden = scene !== "recording";
    const name = nameOf(speakerOf(state), words);
    const plays = scene === "done" && !state.wantsAnother;
    const spoken = plays && (playing === "converted" ? words.pauseOf(name) : words.playOf(name));
    this.#main.setAttribute("aria-label", spoken || label);
    this.#ring.toggleAttribute("data-busy", scene === "busy");
    this.#renderFace(state);
  }

  #renderFace(state: State): void {
    const { scene, words, isHeard } = state;
    const isShown = scene === "done" || this.#main.hidden || (scene === "recording" && isHeard);
    const speaker = speakerOf(state);
    this.#face.show(isShown ? speaker : null, nameOf(speaker, words));
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

  #renderComparison(state: State): void {
    const { scene, words, own, converted, playing } = state;
    const name = nameOf(speakerOf(state), words);
    const visible =
      ["busy", "done", "problem"].includes(scene) && (own !== null || converted !== null);
    show("#comparison", visible);
    renderVoice("#own", own, words.you, playing === "own", words);
    renderVoice("#converted", converted, name, playing === "converted", words);
  }

  #renderActions(state: State): void {
    const { scene, words, wanted, download, setupChanged } = state;
    const done = scene === "done";
    const canDelete = state.canDelete && (done || scene === "problem");
    const begins = canBeginAnew(state);
    const types = canTypeInstead(state);
    show("#actions", done || begins || types || canDelete);
    const isThere = done && download !== null;
    show("#download", isThere);
    show("#share", isThere && canShare(download.file));
    this.#tellLimits(state, isThere);
    show("#again", begins);
    const again = wanted === "type" ? words.typeAgain : words.recordAgain;
    setText(part("#again", HTMLElement), again);
    show("#type-instead", types);
    show("#repeat", done && setupChanged);
    setText(part("#convert-again", HTMLElement), repetition(state));
    show("#delete", canDelete);
    this.#offerDownload(download);
  }

  #tellLimits(state: State, isThere: boolean): void {
    const uses = speakerOf(state)?.forbiddenUses ?? [];
    const { words } = state;
    setText(part("#forbidden", HTMLElement), words.forbidden(listOf(uses, words.uses, words)));
    show("#forbidden", isThere && uses.length > 0);
    setText(part("#unread", HTMLElement), tellUnread(state.unread, words));
    show("#unread", isThere && state.unread !== "");
  }

  #offerDownload(download: State["download"]): void {
    if (download === null) {
      this.#download.removeAttribute("href");
    } else {
      this.#download.href = download.address;
      this.#download.download = download.file.name;
    }
  }

  #colour(character: Character | null): void {
    const colour = character?.colour ?? "";
    if (!/^#[0-9a-f]{6}$/i.test(colour)) return;
    document.documentElement.style.setProperty("--accent", colour);
  }
}

/** The main button's icon and label. */
function look(state: State): readonly [string, string] {
  const { scene, words, wanted, mode, playing, canRetry, wantsAnother } = state;
  const types = wanted === "type";
  const looks: Record<Scene, readonly [string, string]> = {
    loading: ["record", ""],
    start: types ? ["say", words.say] : ["record", words.record],
    recording: ["stop", words.stop],
    busy: ["cancel", words.cancel],
    done: playing === "converted" ? ["pause", words.pause] : ["play", words.play],
    problem: types && wanted === mode ? ["say", words.typeAgain] : ["record", words.record],
  };
  if (scene === "done" && wantsAnother) return looks.start;
  if (scene !== "problem") return looks[scene];
  if (wanted !== mode) return looks.start;
  return canRetry ? ["again", words.tryAgain] : looks.problem;
}

/** Whether another recording or text is offered beside what is shown. */
function canBeginAnew({ scene, canRetry, wanted, own, problem }: State): boolean {
  if (scene !== "problem") return scene === "done";
  // Where nothing can be reached, another recording would fail as the last one did.
  const isReachable = problem?.key !== "network" && problem?.key !== "page";
  return canRetry && isReachable && (wanted === "type" || own !== null);
}

function canTypeInstead({ scene, problem, hasModes, wanted }: State): boolean {
  return scene === "problem" && isOfTheMicrophone(problem) && hasModes && wanted === "speak";
}

/** Whose voice is shown: that of the result as long as there is one, then the chosen character's. */
function speakerOf({ scene, speaker, character }: State): Character | null {
  return scene === "busy" || scene === "done" ? (speaker ?? character) : character;
}

/** Why the chosen character cannot do what the visitor wants, if that is so. */
function inability({ scene, character, wanted, words }: State): string {
  if (scene === "recording" || scene === "busy" || takes(character, wanted)) return "";
  const name = nameOf(character, words);
  return wanted === "type" ? words.cannotType(name) : words.cannotSpeak(name);
}

/** What was left out of a text, by the names that the service gives. */
export function tellUnread(names: string, words: Words): string {
  return words.unread(listOf(names.split(", "), words.unreadNames, words));
}

function listOf(names: readonly string[], said: Record<string, string>, words: Words): string {
  const named = names.map((name) => said[name] ?? name);
  return new Intl.ListFormat(words.language, { type: "conjunction" }).format(named);
}

/** What the same recording or text can be made into. */
function repetition({ words, wanted, character, speaker }: State): string {
  if (character?.id !== speaker?.id) return words.hearAs(nameOf(character, words));
  return wanted === "type" ? words.sayAgain : words.convertAgain;
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
  const write = (seconds: number): string =>
    words.seconds(new Intl.NumberFormat(words.language, digits).format(seconds));
  const { missingSeconds: missing } = sound;
  const lost = missing === undefined ? "" : ` · ${words.damaged(missing ? write(missing) : "")}`;
  setText(part(".who", HTMLElement, row), name);
  setText(part(".length", HTMLElement, row), write(sound.seconds) + lost);
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
