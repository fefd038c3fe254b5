/** Shows the state of the page of own characters. Reads the state and never changes it. */
import { element, part } from "../elements.js";
import type { OwnCharacterState, OwnerOf } from "@voice-avatar/client/own-characters";
import type { SignInWays } from "../site.js";
import type { Language } from "../words.js";
import type { Kept, Spoken } from "./keeping.js";
import { SENTENCES } from "./sentences.js";
import { OWN_WORDS, type OwnWords } from "./words.js";

export type Scene =
  | "loading"
  | "signIn"
  | "terms"
  | "reading"
  | "recording"
  | "judged"
  | "waiting"
  | "ready"
  | "unavailable";
/** What is read: a sentence, or the agreement. */
export type Task = "speech" | "consent";

/** A failure: what is shown, and the service's own words for it. */
export interface Trouble {
  readonly title: string;
  readonly text: string;
  readonly detail: string;
}

/** A character, by its name. */
export interface Named extends OwnerOf {
  readonly name: string;
}

export interface OwnState {
  readonly scene: Scene;
  readonly task: Task;
  readonly language: Language;
  readonly own: Kept | null;
  /** What the service said of it last. */
  readonly service: OwnCharacterState | null;
  /** Those that this browser or the account knows. */
  readonly all: readonly Named[];
  /** Those of the account, by id. */
  readonly mine: ReadonlyMap<string, Named>;
  /** The sentence in the status line. */
  readonly notice: (words: OwnWords) => string;
  readonly trouble: ((language: Language) => Trouble) | null;
  readonly canRetry: boolean;
  readonly canListen: boolean;
  readonly canKeep: boolean;
  readonly stage: string;
  readonly share: number | null;
  /** How visitors can sign in; null where they need not. */
  readonly ways: SignInWays | null;
  /** Who is signed in: an address, or "" without an account; null if nobody is. */
  readonly visitor: string | null;
}

export const NEEDED_SECONDS = 120;
export const GOOD_SECONDS = 300;
const STEPS = ["terms", "speech", "consent", "waiting", "ready"] as const;

/** The seconds of speech that were read. */
export function secondsRead({ spoken }: Kept): number {
  return spoken.reduce((sum, { kind, seconds }) => sum + (kind === "speech" ? seconds : 0), 0);
}

export function hasConsent({ spoken }: Kept): boolean {
  return spoken.some(({ kind }) => kind === "consent");
}

/** What stands there to be read. */
export function lineOf(own: Kept, task: Task): string {
  const lines = SENTENCES[own.language];
  return task === "consent" ? own.sentence : (lines[own.at % lines.length] ?? "");
}

export function render(state: OwnState, remove: (spoken: Spoken) => void): void {
  const words = OWN_WORDS[state.language];
  document.documentElement.lang = words.language;
  document.body.dataset["scene"] = state.scene;
  document.body.toggleAttribute("data-practised", (state.own?.spoken.length ?? 0) > 0);
  for (const place of document.querySelectorAll<HTMLElement>("[data-text]")) {
    const text = words[place.dataset["text"] as keyof OwnWords];
    if (typeof text === "string") setText(place, text);
  }
  const button = part("#language", HTMLButtonElement);
  button.lang = words.language === "ja" ? "en" : "ja";
  setText(button, words.otherLanguage);
  renderHead(state, words);
  renderTrouble(state);
  renderDial(state, words);
  renderCollected(state, words, remove);
  renderSignIn(state, words);
  show("#terms", state.scene === "terms");
  show("#training", state.scene === "waiting");
  setText(part("#stage", HTMLElement), words.stages[state.stage] ?? state.stage);
  const share = part("#share", HTMLProgressElement);
  if (state.share === null) share.removeAttribute("value");
  else share.value = state.share;
  renderResult(state);
  renderOwnership(state, words);
}

/** How the character is reached on another device, and gone. */
function renderOwnership({ own, mine, scene, visitor }: OwnState, words: OwnWords): void {
  show("#ownership", own !== null && scene !== "terms" && scene !== "loading");
  const isOfAccount = own !== null && mine.has(own.characterId);
  const byAccount = visitor === "" ? words.comeBackHere : words.comeBackByAccount;
  setText(part("#come-back", HTMLElement), isOfAccount ? byAccount : words.comeBack);
  show("#copy-key", !isOfAccount);
}

function renderSignIn({ scene, ways, visitor }: OwnState, words: OwnWords): void {
  show("#sign-in", scene === "signIn");
  show("#with-account", ways?.email ?? false);
  show("#without-account", ways?.anonymous ?? false);
  show("#signed-in", visitor !== null && scene !== "signIn");
  setText(part("#signed-in-as", HTMLElement), words.signedInAs(visitor ?? ""));
}

function renderHead(state: OwnState, words: OwnWords): void {
  const { scene, task, own } = state;
  const reads = task === "consent" ? "consent" : "speech";
  const step =
    scene === "loading" || scene === "signIn" ? "terms" : isReading(scene) ? reads : scene;
  const at = STEPS.indexOf(step as (typeof STEPS)[number]);
  for (const [index, name] of STEPS.entries()) {
    const place = part(`[data-step=${name}]`, HTMLElement);
    place.classList.toggle("past", index < at);
    if (index === at) place.setAttribute("aria-current", "step");
    else place.removeAttribute("aria-current");
  }
  const heads: Record<string, readonly [string, string]> = {
    loading: [words.loading, ""],
    unavailable: [words.unavailable, ""],
    signIn: [words.headlineSignIn, words.leadSignIn],
    terms: [words.headlineTerms, words.leadTerms],
    speech: [words.headlineSpeech, words.leadSpeech],
    consent: [words.headlineConsent, words.leadConsent],
    waiting: [words.headlineWaiting, words.leadWaiting],
    ready: [words.headlineReady(own?.name ?? ""), words.leadReady],
  };
  const [headline, lead] = heads[scene === "loading" || scene === "signIn" ? scene : step] ?? [
    "",
    "",
  ];
  setText(part("#headline", HTMLElement), headline);
  setText(part("#lead", HTMLElement), lead);
  show("#steps", scene !== "unavailable");
}

function renderTrouble({ trouble, language, canRetry }: OwnState): void {
  const { title, text, detail } = trouble?.(language) ?? { title: "", text: "", detail: "" };
  show("#problem", trouble !== null);
  setText(part("#problem-title", HTMLElement), title);
  setText(part("#problem-text", HTMLElement), text);
  setText(part("#problem-detail", HTMLElement), detail);
  show("#retry", canRetry);
}

function renderDial(state: OwnState, words: OwnWords): void {
  const { scene, task, own } = state;
  show("#dial", own !== null && isReading(scene));
  setText(part("#status", HTMLElement), state.notice(words));
  if (own === null || !isReading(scene)) return;
  const line = part("#line", HTMLElement);
  line.lang = own.language;
  setText(line, lineOf(own, task));
  const total = SENTENCES[own.language].length;
  const number = new Intl.NumberFormat(words.language);
  const which = words.which(number.format((own.at % total) + 1), number.format(total));
  setText(part("#which", HTMLElement), task === "speech" ? which : "");
  const isRecording = scene === "recording";
  const [icon, label] = isRecording
    ? ["stop", words.stop]
    : scene === "judged"
      ? ["again", words.readAgain]
      : ["record", words.record];
  part("#main-icon", SVGUseElement).setAttribute("href", `#icon-${icon}`);
  setText(part("#main-label", HTMLElement), label);
  setText(part("#listen", HTMLElement), words.listen);
  show("#listen", state.canListen && !isRecording);
  show("#keep", scene === "judged" && state.canKeep);
  show("#skip", task === "speech" && !isRecording);
  show("#back", task === "speech" && !isRecording && own.at > 0);
}

function renderCollected(state: OwnState, words: OwnWords, remove: (spoken: Spoken) => void): void {
  const { own, scene } = state;
  const isShown = own !== null && isReading(scene) && scene !== "recording";
  show("#collected", isShown);
  if (own === null || !isShown) return;
  const seconds = secondsRead(own);
  const isEnough = seconds >= NEEDED_SECONDS;
  setText(part("#minutes-text", HTMLElement), words.minutes(clock(seconds)));
  part("#minutes", HTMLMeterElement).value = Math.min(seconds, GOOD_SECONDS);
  const hint =
    seconds >= GOOD_SECONDS ? words.minutesGood : isEnough ? words.minutesEnough : words.minutesFew;
  setText(part("#minutes-hint", HTMLElement), hint);
  renderNextSteps(state, own, isEnough);
  renderRecordings(own, state.service, words, remove);
}

/** Where the owner can go from here. */
function renderNextSteps({ task, service }: OwnState, own: Kept, isEnough: boolean): void {
  show("#to-consent", task === "speech" && isEnough);
  show("#to-reading", task === "consent");
  show("#train", task === "consent" && isEnough && hasConsent(own));
  show("#files-label", task === "speech");
  show("#keeping", task === "consent");
  part("#keeps", HTMLInputElement).checked = service?.keepsRecordings ?? false;
  show("#as-it-was", service?.isUsable ?? false);
}

/** What the owner decides about a character that is there. */
function renderResult({ scene, service }: OwnState): void {
  const isShown = scene === "ready" && service !== null;
  show("#result", isShown);
  if (!isShown) return;
  const name = part("#new-name", HTMLInputElement);
  if (document.activeElement !== name) name.value = service.name;
  part(`[name=visibility][value=${service.visibility}]`, HTMLInputElement).checked = true;
  show("#visible-to-all", service.allowedVisibilities.includes("public"));
  show("#link", service.visibility !== "private");
  show("#kept-recordings", service.canTrainAgain);
}

function renderRecordings(
  own: Kept,
  service: OwnCharacterState | null,
  words: OwnWords,
  remove: (spoken: Spoken) => void,
): void {
  const refused = service?.refusedRecordings ?? [];
  const because = words.unusedReasons[service?.error?.code ?? ""] ?? "";
  if (own.spoken.some(({ recordingId }) => refused.includes(recordingId)))
    part("#recordings", HTMLDetailsElement).open = true;
  const number = new Intl.NumberFormat(words.language, { maximumFractionDigits: 1 });
  show("#recordings", own.spoken.length > 0);
  setText(
    part("#recordings-title", HTMLElement),
    words.recordings(number.format(own.spoken.length)),
  );
  const list = part("#recordings ol", HTMLElement);
  list.replaceChildren(
    ...own.spoken.map((spoken, index) => {
      const name =
        spoken.kind === "consent"
          ? words.consentRecording
          : words.recording(number.format(index + 1), number.format(spoken.seconds));
      const entry = element("li", "made");
      const button = element("button", "link danger-text", words.remove);
      button.type = "button";
      button.setAttribute("aria-label", `${words.remove}: ${name}`);
      button.addEventListener("click", () => remove(spoken));
      const isRefused = refused.includes(spoken.recordingId);
      const told = isRefused ? words.refused(name, because) : name;
      entry.append(element("span", isRefused ? "strong-text" : "", told), button);
      return entry;
    }),
  );
}

/** The visitor's characters, but the one that is shown. */
export function renderOthers(state: OwnState, open: (character: Named) => void): void {
  const others = state.all.filter(({ characterId }) => characterId !== state.own?.characterId);
  const isElsewhere = state.scene === "recording" || state.scene === "signIn";
  show("#others", !isElsewhere && (others.length > 0 || state.scene === "ready"));
  part("#others ul", HTMLElement).replaceChildren(
    ...others.map((character) => {
      const button = element("button", "link", character.name);
      button.type = "button";
      button.addEventListener("click", () => open(character));
      const entry = element("li", "");
      entry.append(button);
      return entry;
    }),
  );
  show("#others h2", others.length > 0);
  show("#another", state.scene !== "terms");
}

function isReading(scene: Scene): boolean {
  return scene === "reading" || scene === "recording" || scene === "judged";
}

function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

function show(selector: string, isShown: boolean): void {
  part(selector, HTMLElement).hidden = !isShown;
}

function setText(place: HTMLElement, text: string): void {
  if (place.textContent !== text) place.textContent = text;
}
