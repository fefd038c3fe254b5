/** An owner's way: agree, read aloud, agree aloud, wait, speak with the character. */
import { VoiceAvatarError } from "@voice-avatar/client";
import type {
  OwnCharacterChange,
  OwnCharacters,
  OwnCharacterState,
  OwnerOf,
  Visibility,
} from "@voice-avatar/client/own-characters";
import type { SignIn } from "@voice-avatar/client/sign-in";
import { type Account, rememberSignedIn } from "../account.js";
import { part } from "../elements.js";
import { acceptFiles } from "../files.js";
import { PageError, problemOf } from "../problems.js";
import { Recorder, recordingType } from "../recorder.js";
import { Ring, TICKS } from "../ring.js";
import { contentTypeOf, decode, outline, Player } from "../sound.js";
import { type Language, WORDS } from "../words.js";
import {
  addressOf,
  forget,
  keep,
  keepListed,
  type Kept,
  keptCharacters,
  ownerIn,
  type Spoken,
} from "./keeping.js";
import { Card } from "./card.js";
import { type Heard, screen } from "./screening.js";
import { secondsOf } from "./sentences.js";
import {
  lineOf,
  type Named,
  type OwnState,
  render,
  renderOthers,
  type Task,
  type Trouble,
} from "./view.js";
import { OWN_WORDS } from "./words.js";

const RATE = 24_000;
/** The longest sentence takes less, read slowly. */
const MOST_SECONDS = 30;
/** As the service takes them. */
const MOST_BYTES = 4_000_000;
const MOST_FILE_SECONDS = 60;
/** About what a compressed second has, for recordings that another browser has made. */
const BYTES_PER_SECOND = 8_000;
const SILENCE = (): string => "";

/** A recording that has not been accepted yet. */
interface Take {
  readonly blob: Blob;
  readonly task: Task;
  readonly heard: Heard;
}

export class OwnPage {
  readonly #client: OwnCharacters;
  readonly #account: Account;
  readonly #ring = new Ring(part("#ring", HTMLElement));
  readonly #card: Card;
  readonly #player = new Player(() => undefined);
  #state: OwnState;
  #work = new AbortController();
  #recorder: Recorder | null = null;
  #take: Take | null = null;
  #retry: (() => Promise<void>) | null = null;
  /** The character of the address, until one is shown: its owner may have to sign in otherwise. */
  #linked: OwnerOf | null = null;

  constructor(client: OwnCharacters, account: Account, language: Language) {
    this.#client = client;
    this.#account = account;
    this.#card = new Card(client, (error) => this.#fail(error, null));
    this.#state = {
      scene: "loading",
      task: "speech",
      language,
      own: null,
      service: null,
      all: keptCharacters(),
      mine: new Map(),
      notice: SILENCE,
      trouble: null,
      canRetry: false,
      canListen: false,
      canKeep: false,
      stage: "queued",
      share: null,
      ways: account.ways,
      visitor: null,
    };
    part(`[name=language][value=${language}]`, HTMLInputElement).checked = true;
    this.#listen();
  }

  /** Begins where the visitor was; where visitors sign in, that comes first. */
  async open(): Promise<void> {
    if (this.#account.ways === null) await this.#openCharacter();
    else
      await this.#attempt(async () => {
        const { visitor } = await this.#account.open();
        if (visitor === null) this.#update({ scene: "signIn" });
        else await this.#entered();
      });
  }

  /** Goes on as who has signed in. */
  async #entered(): Promise<void> {
    rememberSignedIn(true);
    this.#update({ visitor: (await this.#account.open()).visitor });
    await this.#openCharacter();
  }

  /** Opens the character of the address, or the one that was used last, or the terms. */
  async #openCharacter(): Promise<void> {
    const named = ownerIn(location.hash);
    // The key stays in no address bar and in no history.
    if (named !== null) history.replaceState(null, "", location.pathname);
    this.#linked = named ?? this.#linked;
    const kept = keptCharacters();
    if (this.#state.visitor !== null) await this.#learnMine();
    const { mine, visitor } = this.#state;
    const [newest] = mine.values();
    const isOpened = ({ characterId }: Kept): boolean => visitor === null || mine.has(characterId);
    const owner = this.#linked ?? kept.find(isOpened) ?? newest;
    if (owner === undefined) this.#update({ scene: "terms" });
    else await this.#attempt(() => this.#adopt(owner));
  }

  /** Asks which characters the account has, wherever they were made. */
  async #learnMine(): Promise<void> {
    const listed = await this.#client.list(this.#work.signal);
    keepListed(listed);
    const mine = listed.map(({ characterId, name }) => ({ characterId, name, key: null }));
    this.#update({ mine: new Map(mine.map((each) => [each.characterId, each])) });
    this.#update({ all: this.#all() });
  }

  /** The characters that this browser knows, and then the others of the account. */
  #all(): readonly Named[] {
    const kept = keptCharacters();
    const known = new Set(kept.map(({ characterId }) => characterId));
    const others = [...this.#state.mine.values()].filter((each) => !known.has(each.characterId));
    return [...kept, ...others];
  }

  /** Where the operator offers none. */
  close(): void {
    this.#update({ scene: "unavailable" });
  }

  speak(language: Language): void {
    // It was said in the other language.
    part("#copied", HTMLElement).textContent = "";
    this.#update({ language });
  }

  #update(change: Partial<OwnState>): void {
    this.#state = { ...this.#state, ...change };
    render(this.#state, (spoken) => void this.#attempt(() => this.#remove(spoken)));
    renderOthers(this.#state, (kept) => void this.#attempt(() => this.#adopt(kept)));
    const { own } = this.#state;
    this.#card.render(own, OWN_WORDS[this.#state.language]);
    if (own !== null) part("#speak", HTMLAnchorElement).href = `./#character=${own.characterId}`;
  }

  #listen(): void {
    const pressed = (selector: string, act: () => void | Promise<void>): void => {
      part(selector, HTMLButtonElement).addEventListener("click", () => void act());
    };
    part("#terms", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#attempt(() => this.#begin());
    });
    this.#listenToSignIn(pressed);
    pressed("#main", () => this.#pressed());
    pressed("#listen", () => this.#player.play());
    pressed("#keep", () => this.#attempt(() => this.#save()));
    pressed("#skip", () => this.#turn(1));
    pressed("#back", () => this.#turn(-1));
    pressed("#to-consent", () => this.#toTask("consent"));
    pressed("#to-reading", () => this.#toTask("speech"));
    pressed("#train", () => this.#attempt(() => this.#train()));
    pressed("#retry", () => this.#attempt(this.#retry ?? (() => Promise.resolve())));
    pressed("#copy-key", () => this.#copyKey());
    pressed("#share-link", () => this.#copyLink());
    pressed("#delete", () => this.#attempt(() => this.#delete()));
    pressed("#another", () =>
      this.#update({ scene: "terms", own: null, service: null, trouble: null }),
    );
    part("#rename", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      const name = part("#new-name", HTMLInputElement).value.trim();
      void this.#decide({ name }, (w) => w.renamed);
    });
    part("#visibility", HTMLFieldSetElement).addEventListener("change", ({ target }) => {
      if (!(target instanceof HTMLInputElement)) return;
      const visibility = target.value as Visibility;
      void this.#decide({ visibility }, (w) => w.shared);
    });
    part("#keeps", HTMLInputElement).addEventListener("change", ({ target }) => {
      const keepsRecordings = target instanceof HTMLInputElement && target.checked;
      void this.#decide({ keepsRecordings }, SILENCE);
    });
    pressed("#forget-recordings", () =>
      this.#decide({ keepsRecordings: false }, (w) => w.forgotten),
    );
    pressed("#train-again", () => this.#attempt(() => this.#again()));
    pressed("#as-it-was", () => this.#attempt(() => this.#leaveAsItWas()));
    const bringing = part("#files", HTMLInputElement);
    acceptFiles(bringing, (files) => {
      // Where no files can be chosen, none can be dropped.
      if (bringing.checkVisibility()) void this.#attempt(() => this.#takeFiles(files));
    });
  }

  #listenToSignIn(pressed: (selector: string, act: () => Promise<void>) => void): void {
    const address = (): string => part("#address", HTMLInputElement).value.trim();
    const password = part("#password", HTMLInputElement);
    const form = part("#with-account", HTMLFormElement);
    const entering = (enter: (signIn: SignIn) => Promise<void>): Promise<void> =>
      this.#attempt(async () => {
        await enter(await this.#account.open());
        password.value = "";
        await this.#entered();
      });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void entering((signIn) => signIn.enter(address(), password.value));
    });
    pressed("#create-account", async () => {
      if (form.reportValidity())
        await entering((signIn) => signIn.create(address(), password.value));
    });
    pressed("#forgot-password", () =>
      this.#attempt(async () => {
        if (!part("#address", HTMLInputElement).reportValidity()) return;
        await (await this.#account.open()).sendPassword(address());
        const { passwordSent } = OWN_WORDS[this.#state.language];
        part("#sign-in-status", HTMLElement).textContent = passwordSent;
      }),
    );
    pressed("#enter-anonymously", () => entering((signIn) => signIn.enterAnonymously()));
    pressed("#sign-out", () => this.#attempt(() => this.#leave()));
  }

  async #leave(): Promise<void> {
    const { visitor, mine } = this.#state;
    const loses = visitor === "" && mine.size > 0;
    if (loses && !window.confirm(OWN_WORDS[this.#state.language].signOutReally)) return;
    await (await this.#account.open()).leave();
    rememberSignedIn(false);
    // Who comes next is somebody else; the account still has them. Only its characters have no key
    // here, also before its list is there.
    const keyless = keptCharacters().filter(({ key }) => key === null);
    for (const each of [...mine.values(), ...keyless]) forget(each);
    this.#work.abort();
    this.#work = new AbortController();
    const nobody = { visitor: null, own: null, service: null, mine: new Map<string, Named>() };
    this.#update({ scene: "signIn", ...nobody, notice: SILENCE });
    this.#update({ all: this.#all() });
  }

  async #pressed(): Promise<void> {
    if (this.#state.scene === "recording") this.#recorder?.stop();
    else if (this.#recorder === null) await this.#attempt(() => this.#record());
  }

  async #begin(): Promise<void> {
    const given = new FormData(part("#terms", HTMLFormElement));
    const text = (name: string): string => {
      const value = given.get(name);
      return typeof value === "string" ? value.trim() : "";
    };
    const terms = {
      name: text("name"),
      language: text("language") === "ja" ? "ja" : "en",
      owner: text("owner"),
      contact: text("contact"),
      isMyOwnVoice: true,
      noPublicFigureNoMinor: true,
    } as const;
    const begun = await this.#client.begin(terms);
    const { name, language } = terms;
    if (this.#state.visitor !== null)
      this.#update({ mine: new Map(this.#state.mine).set(begun.characterId, { ...begun, name }) });
    this.#keep({ ...begun, name, language, at: 0, spoken: [], isReady: false });
    this.#update({ service: await this.#client.show(begun) });
    this.#toTask("speech");
    part("#main", HTMLButtonElement).focus();
  }

  /** Goes on with a character where it is. */
  async #adopt(owner: OwnerOf): Promise<void> {
    const known = keptCharacters().find(({ characterId }) => characterId === owner.characterId);
    const state = await this.#client.show(owner).catch((error: unknown) => {
      const code = error instanceof VoiceAvatarError ? error.code : "";
      const isGone = code === "unknown_own_character";
      if (!isGone && code !== "own_character_of_another_account") throw error;
      if (isGone) forget(owner);
      this.#update({ scene: "terms", own: null, all: this.#all() });
      throw error;
    });
    this.#keep({ ...owner, ...reconciled(known ?? null, state) });
    this.#update({ service: state });
    await this.#follow(state);
  }

  /** Shows a state of the service, and waits on while somebody works at the character. */
  async #follow(state: OwnCharacterState): Promise<void> {
    if (state.status === "ready") this.#finish(state);
    else if (state.status === "queued" || state.status === "training") await this.#wait();
    else {
      this.#update({ service: state });
      this.#toTask("speech");
      if (state.error !== null) this.#fail(state.error, null);
    }
  }

  async #record(): Promise<void> {
    const contentType = recordingType();
    if (contentType === null) throw new PageError("unsupported_browser");
    const { task } = this.#state;
    this.#take = null;
    this.#player.clear();
    this.#ring.clear();
    this.#update({ notice: (w) => w.waitingForMicrophone, canListen: false });
    this.#recorder = new Recorder({
      contentType,
      maxSeconds: MOST_SECONDS,
      isHeard: false,
      isRaw: true,
      signal: this.#work.signal,
      onStart: () => this.#update({ scene: "recording", notice: (w) => w.listening }),
      onLevel: (level, seconds) => this.#ring.meter(level, seconds, MOST_SECONDS),
    });
    try {
      const { blob, peak } = await this.#recorder.finished;
      await this.#judge(blob, task, peak);
    } finally {
      this.#recorder = null;
      if (this.#state.scene === "recording") this.#update({ scene: "reading", notice: SILENCE });
    }
  }

  /** Takes a recording if nothing is wrong with it; otherwise the owner decides. */
  async #judge(blob: Blob, task: Task, peak: number | null): Promise<void> {
    const { own } = this.#state;
    const sound = await decode(blob);
    if (own === null) return;
    const seconds = secondsOf(lineOf(own, task), own.language);
    const expected = { seconds, peak, pitches: pitchesOf(own) };
    const heard: Heard =
      sound === null
        ? { seconds: 0, pitch: null, fault: "nothing" }
        : screen(sound.samples, RATE, expected);
    if (sound !== null) {
      this.#player.load(URL.createObjectURL(blob), sound.seconds);
      this.#ring.draw(outline(sound, TICKS));
      this.#ring.pulse(0);
    }
    this.#take = { blob, task, heard };
    const { fault } = heard;
    if (fault === null) {
      await this.#save();
      return;
    }
    const notice: OwnState["notice"] = (w) => w.faults[fault];
    this.#update({ scene: "judged", notice, canListen: true, canKeep: fault !== "nothing" });
  }

  /** Uploads the recording that was made last, and goes on. */
  async #save(): Promise<void> {
    const take = this.#take;
    if (take === null) return;
    // Already now, so that nobody waits for the upload of a sentence.
    this.#update({ scene: "reading", canListen: true, canKeep: false });
    await this.#bring(take);
    this.#take = null;
    const seconds = new Intl.NumberFormat(this.#state.language, { maximumFractionDigits: 1 });
    const said = seconds.format(take.heard.seconds);
    this.#update({ notice: (w) => (take.task === "consent" ? w.agreed : w.good(said)) });
    if (take.task === "speech") this.#move(1);
  }

  async #bring({ blob, task, heard }: Take): Promise<void> {
    const own = this.#required();
    if (task === "consent")
      for (const each of own.spoken) if (each.kind === "consent") await this.#remove(each);
    const recordingId = await this.#client.bring(own, task, blob, this.#work.signal);
    const spoken: Spoken = { recordingId, kind: task, ...heard };
    const latest = this.#required();
    this.#keep({ ...latest, spoken: [...latest.spoken, spoken] });
  }

  async #remove(spoken: Spoken): Promise<void> {
    const own = this.#required();
    await this.#client.remove(own, spoken.recordingId, this.#work.signal);
    const latest = this.#required();
    const left = latest.spoken.filter(({ recordingId }) => recordingId !== spoken.recordingId);
    this.#keep({ ...latest, spoken: left });
  }

  /** Takes recordings that the owner has already; what is not usable is counted. */
  async #takeFiles(files: readonly File[]): Promise<void> {
    let taken = 0;
    for (const file of files) {
      const sound = file.size > MOST_BYTES ? null : await decode(file);
      if (sound === null || sound.seconds > MOST_FILE_SECONDS) continue;
      const expected = { seconds: null, peak: null, pitches: pitchesOf(this.#required()) };
      const heard = screen(sound.samples, RATE, expected);
      if (heard.fault !== null && heard.fault !== "cut_off") continue;
      const blob = new Blob([file], { type: contentTypeOf(file) });
      await this.#bring({ blob, task: "speech", heard });
      taken += 1;
    }
    const number = new Intl.NumberFormat(this.#state.language);
    const counts = [number.format(taken), number.format(files.length - taken)] as const;
    this.#update({ notice: (w) => w.files(...counts) });
  }

  async #train(): Promise<void> {
    const state = await this.#client.train(this.#required(), this.#work.signal);
    await this.#follow(state);
  }

  async #wait(): Promise<void> {
    const own = this.#required();
    this.#update({ scene: "waiting", stage: "queued", share: null, notice: SILENCE });
    const shown = (state: OwnCharacterState): void => {
      const isHere = this.#state.own?.characterId === own.characterId;
      if (isHere && state.status !== "ready")
        this.#update({ stage: state.stage ?? state.status, share: state.share });
    };
    const state = await this.#client.wait(own, shown, this.#work.signal);
    if (this.#state.own?.characterId === own.characterId) await this.#follow(state);
  }

  #finish(service: OwnCharacterState): void {
    const { name } = service;
    this.#keep({ ...this.#required(), name, isReady: true, spoken: [] });
    this.#card.forget();
    this.#update({ scene: "ready", service, notice: SILENCE });
  }

  async #decide(change: OwnCharacterChange, said: OwnState["notice"]): Promise<void> {
    await this.#attempt(() => this.#change(change, said));
  }

  /** Renames, shares, withdraws; or decides about the recordings. */
  async #change(change: OwnCharacterChange, said: OwnState["notice"]): Promise<void> {
    const before = this.#state.service;
    // What was chosen stays chosen while the service is asked.
    if (before !== null) this.#update({ service: { ...before, ...change } });
    try {
      const service = await this.#client.change(this.#required(), change, this.#work.signal);
      this.#keep({ ...this.#required(), name: service.name });
      this.#update({ service });
      part("#copied", HTMLElement).textContent = said(OWN_WORDS[this.#state.language]);
    } catch (error) {
      this.#update({ service: before });
      throw error;
    }
  }

  /** Reads more for a better training; the character stays usable meanwhile. */
  async #again(): Promise<void> {
    const own = this.#required();
    const state = await this.#client.again(own, this.#work.signal);
    this.#keep({ ...own, ...reconciled(null, state), at: own.at, isReady: true });
    this.#update({ service: state });
    this.#toTask("speech");
  }

  async #leaveAsItWas(): Promise<void> {
    if (!window.confirm(OWN_WORDS[this.#state.language].asItWasReally)) return;
    await this.#change({ keepsRecordings: false }, (w) => w.forgotten);
    const { service } = this.#state;
    if (service !== null) await this.#follow(service);
  }

  async #delete(): Promise<void> {
    const own = this.#required();
    if (!window.confirm(OWN_WORDS[this.#state.language].deleteReally)) return;
    await this.#client.delete(own);
    forget(own);
    const mine = new Map(this.#state.mine);
    mine.delete(own.characterId);
    this.#update({ mine });
    this.#work.abort();
    this.#work = new AbortController();
    const notice: OwnState["notice"] = (w) => w.deleted;
    this.#update({ scene: "terms", own: null, service: null, all: this.#all(), notice });
    part("#copied", HTMLElement).textContent = "";
  }

  async #copyKey(): Promise<void> {
    await navigator.clipboard.writeText(addressOf(this.#required(), location.href));
    part("#copied", HTMLElement).textContent = OWN_WORDS[this.#state.language].copied;
  }

  async #copyLink(): Promise<void> {
    const { characterId } = this.#required();
    await navigator.clipboard.writeText(new URL(`./#character=${characterId}`, location.href).href);
    part("#copied", HTMLElement).textContent = OWN_WORDS[this.#state.language].linkCopied;
  }

  #toTask(task: Task): void {
    this.#take = null;
    this.#ring.clear();
    this.#update({ scene: "reading", task, notice: SILENCE, canListen: false, trouble: null });
  }

  /** Another sentence instead of this one. */
  #turn(steps: number): void {
    this.#take = null;
    this.#update({ scene: "reading", notice: SILENCE, canListen: false });
    this.#move(steps);
  }

  #move(steps: number): void {
    const own = this.#required();
    this.#keep({ ...own, at: Math.max(0, own.at + steps) });
  }

  #keep(own: Kept): void {
    this.#linked = null;
    keep(own);
    this.#update({ own, all: this.#all() });
  }

  #required(): Kept {
    const { own } = this.#state;
    if (own === null) throw new Error("There is no character yet.");
    return own;
  }

  /** Does something, and shows why it failed; what the visitor has spoken stays. */
  async #attempt(act: () => Promise<void>): Promise<void> {
    this.#update({ trouble: null, canRetry: false });
    const { signal } = this.#work;
    try {
      await act();
    } catch (error) {
      if (!signal.aborted) this.#fail(error, act);
    }
  }

  #fail(error: unknown, act: (() => Promise<void>) | null): void {
    // A take that did not arrive is sent again, not spoken again.
    this.#retry = this.#take === null || this.#state.scene === "judged" ? act : () => this.#save();
    const trouble = (language: Language): Trouble => troubleOf(error, language);
    this.#update({ trouble, canRetry: act !== null });
  }
}

function troubleOf(error: unknown, language: Language): Trouble {
  const own = error instanceof VoiceAvatarError ? OWN_WORDS[language].problems[error.code] : null;
  const detail = error instanceof VoiceAvatarError ? error.message : "";
  if (own !== null && own !== undefined) return { title: own[0], text: own[1], detail };
  const { key, code } = problemOf(error);
  const [title, text] = WORDS[language].problems[key];
  return { title, text, detail: code ?? "" };
}

function pitchesOf({ spoken }: Kept): number[] {
  return spoken.map(({ pitch }) => pitch).filter((pitch) => pitch !== null);
}

/** What this browser knows of a character, corrected by what the service has. */
function reconciled(
  known: Kept | null,
  state: OwnCharacterState,
): Omit<Kept, "characterId" | "key"> {
  const spoken = state.recordings.map(
    ({ recordingId, kind, bytes }) =>
      known?.spoken.find((each) => each.recordingId === recordingId) ?? {
        recordingId,
        kind,
        seconds: bytes / BYTES_PER_SECOND,
        pitch: null,
      },
  );
  return {
    name: state.name,
    language: known?.language ?? (/[\u3040-\u30ff]/.test(state.sentence) ? "ja" : "en"),
    sentence: state.sentence,
    at: known?.at ?? spoken.filter(({ kind }) => kind === "speech").length,
    spoken,
    isReady: state.isUsable,
  };
}
