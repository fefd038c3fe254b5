/** The visitor's way through the page: choose, speak, wait, listen. */
import type {
  AnnouncedVoice,
  Character,
  ConvertProgress,
  RecordingSource,
  SpeakProgress,
  VoiceAvatar,
  VoiceResult,
} from "@voice-avatar/client";
import { ClipMaker } from "./clipMaker.js";
import { part } from "./elements.js";
import { Face, RunningMovement } from "./face.js";
import { fileName } from "./files.js";
import { Hearing } from "./hearing.js";
import type { Mode } from "./modes.js";
import { Playback } from "./playback.js";
import { isOfTheMicrophone, PageError, type Problem, problemOf } from "./problems.js";
import { Recorder, recordingType } from "./recorder.js";
import { Ring, TICKS } from "./ring.js";
import { Roster } from "./roster.js";
import { Samples } from "./samples.js";
import { pageLimits, Setup } from "./setup.js";
import type { Operator } from "./site.js";
import { contentTypeOf, decode, judge, measure, outline, type Sound } from "./sound.js";
import {
  initialState,
  NOTHING_YET,
  type Side,
  SILENCE,
  type Stage,
  STAGES,
  type State,
} from "./state.js";
import { View } from "./view.js";
import { BARS } from "./waveform.js";
import { shareFile, Visit } from "./visit.js";
import { type Language, WORDS } from "./words.js";

const OUTPUT_FORMAT = "mp3";
/** A deletion can be taken back for so long. */
const UNDO_MILLISECONDS = 6_000;
/** The visitor is told that nothing is heard after so many seconds below this level. */
const QUIET_SECONDS = 2;
const QUIET_LEVEL = 0.1;
/** The part of the ring that has the character's colour, for each stage. */
const TURNED: Readonly<Record<Stage, number>> = {
  uploading: 0.25,
  queued: 0.4,
  converting: 0.7,
  done: 1,
};

/** For what is converted without having been spoken just now. */
const NOT_SPOKEN = { hearing: null, kept: Promise.resolve() };

/** A recording and its media type. */
interface Take {
  readonly blob: Blob;
  readonly contentType: string;
}

export class Page {
  readonly #client: VoiceAvatar;
  readonly #face = new Face();
  readonly #view: View;
  readonly #ring = new Ring(part("#ring", HTMLElement));
  readonly #setup: Setup;
  readonly #roster: Roster;
  readonly #samples: Samples;
  readonly #playback = new Playback((side, playing, fraction) =>
    this.#played(side, playing, fraction),
  );
  readonly #visit = new Visit({
    onPlay: () => {
      this.#playback.pause();
      this.#samples.silence();
    },
    onDelete: ({ voiceId }) => this.#delete(voiceId),
  });
  readonly #clips = new ClipMaker(() => {
    this.#playback.pause();
    this.#samples.silence();
    this.#visit.silence();
  });
  #state: State;
  #work = new AbortController();
  #recorder: Recorder | null = null;
  #take: Take | null = null;
  #voice: AnnouncedVoice | null = null;
  #usedSetup = "";
  #usedText = "";
  #retry: (() => Promise<void>) | null = null;
  /** The voice that will be deleted, unless the visitor takes it back. */
  #doomed: { readonly voiceId: string; readonly timer: number } | null = null;

  /** `canHear`: whether the service lets visitors hear the character while they speak. */
  constructor(
    client: VoiceAvatar,
    language: Language,
    { canHear, operator }: { canHear: boolean; operator: Operator },
  ) {
    this.#client = client;
    this.#view = new View(this.#face, operator);
    this.#setup = new Setup(
      { onChange: () => this.#setupChanged(), onSay: () => void this.#say() },
      canHear,
    );
    this.#roster = new Roster(client, this.#setup);
    this.#samples = new Samples(client, {
      onPlay: () => {
        this.#playback.pause();
        this.#visit.silence();
      },
      onFailure: () => this.#update({ notice: (w) => w.sampleFailed }),
    });
    this.#state = initialState(WORDS[language]);
    this.#listen();
  }

  /** Loads the characters and opens the page. */
  async open(): Promise<void> {
    this.#update({ scene: "loading", problem: null, canRetry: false });
    try {
      await this.#roster.load();
      this.#start();
      // Results of before a reload come when they come.
      void this.#visit.restore(this.#client, this.#setup.characters).then(() => this.#update({}));
    } catch {
      this.#fail(problemOf(new PageError("page")), () => this.open());
    }
  }

  speak(language: Language): void {
    this.#update({ words: WORDS[language] });
  }

  /** Shows the characters that there are now to visitors who come back after a while. */
  async #listAgain(): Promise<void> {
    if (!this.#roster.isOld || document.hidden || this.#state.scene !== "start") return;
    await this.#roster.load().then(
      () => this.#update({}),
      () => undefined,
    );
  }

  #update(change: Partial<State>): void {
    const { character, mode, hasModes } = this.#setup;
    this.#state = { ...this.#state, ...change, character, hasModes, wanted: mode };
    if (this.#state.scene === "start") this.#state = { ...this.#state, mode };
    this.#setup.render(this.#state.words);
    this.#samples.render(this.#state.words, this.#setup.characters);
    this.#view.render(this.#state);
    const { scene, words, speaker, own, converted } = this.#state;
    const isClippable = scene === "done" && speaker !== null && converted !== null;
    const caption = this.#state.mode === "type" ? this.#usedText : "";
    this.#clips.render(isClippable ? { character: speaker, own, converted, caption } : null, words);
    const shown = scene === "done" ? (this.#voice?.voiceId ?? null) : null;
    this.#visit.render(words, ["start", "done", "problem"].includes(scene), shown);
  }

  #listen(): void {
    part("#main", HTMLButtonElement).addEventListener("click", () => void this.#pressed());
    part("#again", HTMLButtonElement).addEventListener("click", () => void this.#anew());
    part("#convert-again", HTMLButtonElement).addEventListener("click", () => void this.#again());
    part("#share", HTMLButtonElement).addEventListener("click", () => {
      const { download } = this.#state;
      if (download !== null) void shareFile(download.file);
    });
    part("#type-instead", HTMLButtonElement).addEventListener("click", () => this.#type());
    part("#delete", HTMLButtonElement).addEventListener("click", () => {
      if (this.#voice !== null) this.#delete(this.#voice.voiceId);
    });
    part("#undo", HTMLButtonElement).addEventListener("click", () => this.#undelete());
    window.addEventListener("pagehide", () => void this.#deleteDoomed());
    for (const side of ["own", "converted"] as const) {
      part(`#${side} button`, HTMLButtonElement).addEventListener("click", () =>
        this.#playback.toggle(side),
      );
    }
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) void this.#deleteDoomed();
      else void this.#listAgain();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#cancel();
    });
    window.addEventListener("online", () => void this.#online());
    window.addEventListener("offline", () => this.#offline());
  }

  /** Takes a file instead of a recording, unless the page is busy. */
  async takeFile(file: File): Promise<void> {
    if (!["start", "done", "problem"].includes(this.#state.scene)) return;
    this.#setup.choose("speak");
    this.#forget("speak");
    await this.#attempt(async (signal) => {
      const take = { blob: file, contentType: contentTypeOf(file) };
      const sound = await this.#keep(take, signal);
      // What this browser cannot decode, the service judges.
      if (sound !== null) judge(measure(sound), this.#limits);
      await this.#convert(take.blob, take);
    });
  }

  async #pressed(): Promise<void> {
    const { scene } = this.#state;
    if (scene === "start") await this.#begin();
    else if (scene === "recording") this.#recorder?.stop();
    else if (scene === "busy") this.#cancel();
    else if (scene === "done" && this.#state.wantsAnother) await this.#begin();
    else if (scene === "done") this.#playback.toggle("converted");
    else if (scene === "problem") await this.#recover();
  }

  async #begin(): Promise<void> {
    await (this.#setup.mode === "type" ? this.#say() : this.#record());
  }

  /** Tries again, or does what the visitor has chosen since it failed. */
  async #recover(): Promise<void> {
    if (this.#setup.mode !== this.#state.mode) await this.#begin();
    else await (this.#retry ?? (() => this.#anew()))();
  }

  /** Lets the visitor type instead of speaking. */
  #type(): void {
    this.#setup.choose("type");
    this.#start();
    this.#setup.typing.focus();
  }

  /** Another recording, or another text. */
  async #anew(): Promise<void> {
    const { mode, isPossible, typing } = this.#setup;
    if (mode === "speak" && isPossible) {
      await this.#record();
      return;
    }
    this.#start();
    if (mode === "type") typing.focus();
  }

  /** The same recording or text, as it is wanted now. */
  async #again(): Promise<void> {
    await (this.#setup.mode === "type" ? this.#say() : this.#convertTake());
  }

  get #limits(): Character["limits"] {
    return pageLimits(this.#setup.character);
  }

  #start(): void {
    this.#forget();
    this.#ring.clear();
    this.#update({ scene: "start", notice: SILENCE });
  }

  /** Removes everything that an earlier recording left. */
  #forget(mode: Mode = this.#setup.mode): void {
    this.#work.abort();
    this.#work = new AbortController();
    this.#samples.silence();
    this.#recorder = null;
    this.#playback.clear();
    this.#take = null;
    this.#voice = null;
    this.#retry = null;
    this.#state = { ...this.#state, ...NOTHING_YET, mode };
  }

  async #record(): Promise<void> {
    if (this.#recorder !== null) return;
    this.#forget("speak");
    await this.#attempt(async (signal) => {
      const contentType = recordingType();
      if (contentType === null) throw new PageError("unsupported_browser");
      const hearing = this.#setup.hears ? this.#startHearing() : null;
      const recorder = this.#startRecorder(contentType, hearing !== null);
      void recorder.finished.catch(() => undefined).then(() => hearing?.stop());
      // What cannot be converted fails here, before the recording ends for the service.
      const judged = recorder.finished.then((recorded) => judge(recorded, this.#limits));
      judged.catch(() => undefined);
      const slices = recorder.slices.pipeThrough(
        new TransformStream<Blob, Blob>({ flush: () => judged }),
      );
      const kept = recorder.finished.then(({ blob }) => this.#keep({ blob, contentType }, signal));
      kept.catch(() => undefined);
      const conversion = this.#convert(slices, { contentType }, { hearing, kept });
      // A visitor who is speaking is not interrupted: an error is shown afterwards.
      conversion.catch(() => undefined);
      await kept;
      await judged;
      await conversion;
    });
  }

  /** Lets the visitor hear the character, whose mouth moves with it. */
  #startHearing(): Hearing {
    const movement = new RunningMovement();
    return new Hearing((samples, rate) => this.#face.open(movement.next(samples, rate)));
  }

  #startRecorder(contentType: string, isHeard: boolean): Recorder {
    const { maxSeconds } = this.#limits;
    this.#ring.clear();
    this.#update({ scene: "start", notice: (w) => w.waitingForMicrophone });
    const last = { announced: false };
    const heard = { at: 0, isQuiet: false };
    this.#recorder = new Recorder({
      contentType,
      maxSeconds,
      isHeard,
      signal: this.#work.signal,
      onStart: () =>
        this.#update({
          scene: "recording",
          isHeard,
          notice: (w) => w.recordingStarted(String(maxSeconds)),
        }),
      onLevel: (level, seconds) => {
        this.#ring.meter(level, seconds, maxSeconds);
        this.#view.countdown(maxSeconds - seconds, this.#state.words);
        if (level > QUIET_LEVEL) heard.at = seconds;
        const isQuiet = seconds - heard.at > QUIET_SECONDS;
        if (isQuiet !== heard.isQuiet) {
          heard.isQuiet = isQuiet;
          this.#update({
            notice: (w) => (isQuiet ? w.nothingHeard : w.recordingStarted(String(maxSeconds))),
          });
        }
        if (maxSeconds - seconds > 3 || last.announced) return;
        last.announced = true;
        this.#update({ notice: (w) => w.secondsLeft("3") });
      },
    });
    return this.#recorder;
  }

  /** Keeps a recording, which can be converted again, and shows it. */
  async #keep(take: Take, signal: AbortSignal): Promise<Sound | null> {
    const sound = await decode(take.blob);
    // Meanwhile the visitor may have started a recording or dropped another file.
    signal.throwIfAborted();
    this.#take = take;
    this.#hear(sound);
    return sound;
  }

  /** Shows the visitor's own recording and lets the visitor play it. */
  #hear(sound: Sound | null): void {
    const levels =
      sound === null ? Array.from({ length: TICKS }, () => 0.3) : outline(sound, TICKS);
    this.#ring.pulse(0);
    this.#ring.draw(levels);
    this.#ring.turn(0);
    if (sound !== null) this.#playback.load("own", sound);
    this.#update({
      scene: "busy",
      stage: "uploading",
      own: sound,
      notice: (w) => w.stageUploading,
    });
  }

  async #convertTake(): Promise<void> {
    const take = this.#take;
    const own = this.#state.own;
    if (take === null) return;
    this.#forget("speak");
    this.#take = take;
    await this.#attempt(async () => {
      this.#hear(own);
      await this.#convert(take.blob, take);
    });
  }

  async #convert(
    recording: RecordingSource,
    { contentType }: Pick<Take, "contentType">,
    { hearing, kept }: { hearing: Hearing | null; kept: Promise<unknown> } = NOT_SPOKEN,
  ): Promise<void> {
    const { character, pitchShift, summary } = this.#setup;
    this.#usedSetup = summary;
    this.#update({ speaker: character });
    const shown: Promise<void>[] = [];
    const { result } = await this.#client.convert(recording, {
      contentType,
      pitchShift,
      outputFormat: OUTPUT_FORMAT,
      ...(character === null ? {} : { character: character.id }),
      onProgress: (progress) => {
        const { step } = progress;
        // The result may be there before the browser has decoded the visitor's own recording.
        if (step === "converted")
          shown.push(kept.then(() => this.#show(progress.audio)).catch(() => undefined));
        else this.#progress(progress);
      },
      ...(hearing === null ? {} : { onHeard: (sound) => hearing.play(sound) }),
      signal: this.#work.signal,
    });
    await kept;
    await (shown[0] ?? this.#fetchResult(result));
    this.#keepResult(result);
    const { converted } = this.#state;
    const { missingSeconds } = result;
    // The sound that came first says nothing of the recording.
    if (converted !== null && missingSeconds !== undefined)
      this.#update({ converted: { ...converted, missingSeconds } });
  }

  /** Keeps the result for a reload. */
  #keepResult(result: VoiceResult): void {
    if (this.#voice !== null) this.#visit.keep(this.#voice.voiceId, result);
  }

  /** Lets the character speak what the visitor has typed. */
  async #say(): Promise<void> {
    const { character, typing, summary, mode, isPossible } = this.#setup;
    const isIdle = ["start", "done", "problem"].includes(this.#state.scene);
    const ready = isIdle && mode === "type" && isPossible;
    if (!ready || !typing.check(character, this.#state.words)) return;
    this.#forget("type");
    this.#usedSetup = summary;
    this.#usedText = typing.text;
    this.#ring.clear();
    this.#ring.turn(TURNED.queued);
    this.#update({
      scene: "busy",
      speaker: character,
      stage: "queued",
      notice: (w) => w.stageQueued,
    });
    await this.#attempt(async (signal) => {
      const { result } = await this.#client.speak(typing.text, {
        ...typing.wishes,
        outputFormat: OUTPUT_FORMAT,
        ...(character === null ? {} : { character: character.id }),
        onProgress: (progress) => this.#progress(progress),
        signal,
      });
      await this.#fetchResult(result);
      this.#keepResult(result);
    });
  }

  async #fetchResult(result: VoiceResult): Promise<void> {
    const blob = await this.#client.download(result, this.#work.signal);
    await this.#show(blob, result);
  }

  /** Shows and plays the converted audio; its `seconds` count if this browser cannot decode it. */
  async #show(blob: Blob, result: Partial<VoiceResult> = {}): Promise<void> {
    const { seconds, phones = [], missingSeconds } = result;
    const { signal } = this.#work;
    const decoded = await decode(blob);
    if (signal.aborted) return;
    const missing = missingSeconds === undefined ? {} : { missingSeconds };
    const sound = decoded && { ...decoded, phones, ...missing };
    const length = seconds ?? this.#state.own?.seconds ?? 1;
    this.#done(
      blob,
      sound ?? {
        blob,
        seconds: length,
        samples: new Float32Array(BARS),
        isDecoded: false,
        ...missing,
      },
    );
  }

  #done(blob: Blob, sound: Sound): void {
    const address = this.#playback.load("converted", sound);
    const { speaker } = this.#state;
    const at = new Date();
    const file = new File([blob], fileName(speaker, blob.type, at), {
      type: blob.type,
    });
    if (speaker !== null && this.#voice !== null) {
      const { voiceId } = this.#voice;
      this.#visit.add({ voiceId, character: speaker, file, seconds: sound.seconds, at });
    }
    // Before it is drawn, so that it is heard at once.
    this.#playback.toggle("converted");
    this.#face.learn(sound);
    this.#ring.draw(outline(sound, TICKS));
    this.#ring.turn(1);
    this.#update({
      scene: "done",
      stage: "done",
      converted: sound,
      canDelete: true,
      setupChanged: false,
      wantsAnother: false,
      download: { address, file },
      notice: SILENCE,
    });
  }

  #progress(progress: ConvertProgress | SpeakProgress): void {
    if (progress.step === "created") {
      this.#voice = progress.voice;
      this.#update({ unread: progress.voice.unread ?? "" });
    } else if (progress.step === "uploading") {
      const share = progress.sentBytes / Math.max(1, progress.totalBytes);
      this.#ring.turn(share * TURNED.uploading);
    } else if (progress.step === "update") {
      this.#stage(progress.update.status as Stage);
    } else if (progress.step === "in_line") {
      this.#waitInLine(progress.seconds);
    } else if (progress.step === "hearing_ended") {
      this.#update({ notice: (words) => words.hearingEnded });
    }
  }

  /** Says how long it takes until it is the visitor's turn. A visitor who speaks is not disturbed. */
  #waitInLine(seconds: number): void {
    const { signal } = this.#work;
    const end = Date.now() + seconds * 1000;
    // Not each second, because screen readers say every change.
    const tell = (): void => {
      const left = Math.round((end - Date.now()) / 1000);
      if (signal.aborted) return;
      if (this.#state.scene === "busy")
        this.#update({ notice: left < 1 ? SILENCE : (w) => w.inLine(String(left)) });
      if (left >= 1) setTimeout(tell, Math.min(left, left % 5 || 5) * 1000);
    };
    tell();
  }

  #stage(stage: Stage): void {
    if (STAGES.indexOf(stage) <= STAGES.indexOf(this.#state.stage)) return;
    this.#ring.turn(TURNED[stage]);
    const spoken = {
      uploading: "stageUploading",
      queued: "stageQueued",
      converting: "stageConverting",
      done: "stageDone",
    } as const;
    this.#update({ stage, notice: (w) => w[spoken[stage]] });
  }

  async #attempt(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { signal } = this.#work;
    try {
      await work(signal);
    } catch (error) {
      if (signal.aborted) return;
      const problem = problemOf(error);
      // The chosen character is gone: another can be chosen from what is there now.
      if (problem.key === "unknown_character") await this.#roster.load().catch(() => undefined);
      if (this.#work.signal !== signal) return;
      const canRepeat = this.#take !== null || this.#state.mode === "type";
      this.#fail(problem, canRepeat ? () => this.#again() : null);
    } finally {
      // The attempt that replaced this one may be recording.
      if (!signal.aborted) this.#recorder = null;
    }
  }

  #fail(problem: Problem, retry: (() => Promise<void>) | null): void {
    this.#retry = problem.hopeless ? null : (retry ?? (() => this.#anew()));
    this.#ring.clear();
    this.#update({
      scene: "problem",
      problem,
      canRetry: this.#retry !== null,
      canDelete: this.#voice !== null && problem.key !== "unknown_voice",
      notice: SILENCE,
    });
    window.scrollTo({ top: 0 });
  }

  /** Stops recording or waiting; the client deletes the announced voice. */
  #cancel(): void {
    if (this.#state.scene === "recording" || this.#state.scene === "busy") this.#start();
  }

  /** Deletes a voice after a while, in which the visitor can take it back. */
  #delete(voiceId: string): void {
    void this.#deleteDoomed();
    const isShown = voiceId === this.#voice?.voiceId && this.#state.scene !== "busy";
    // What has no row in the list could not come back.
    const canUndo = this.#visit.has(voiceId);
    const timer = window.setTimeout(
      () => void this.#deleteDoomed(),
      canUndo ? UNDO_MILLISECONDS : 0,
    );
    this.#doomed = { voiceId, timer };
    this.#visit.hide(voiceId);
    if (isShown) this.#start();
    this.#update({ notice: (words) => words.deleted, canUndo });
    part(canUndo ? "#undo" : "#main", HTMLButtonElement).focus();
  }

  #undelete(): void {
    if (this.#doomed === null) return;
    clearTimeout(this.#doomed.timer);
    this.#visit.unhide(this.#doomed.voiceId);
    this.#doomed = null;
    this.#update({ notice: SILENCE, canUndo: false });
  }

  /** Deletes at the service what the visitor has not taken back. */
  async #deleteDoomed(): Promise<void> {
    if (this.#doomed === null) return;
    const { voiceId, timer } = this.#doomed;
    clearTimeout(timer);
    this.#doomed = null;
    this.#update({ canUndo: false });
    try {
      await this.#client.deleteVoice(voiceId);
      this.#visit.forget(voiceId);
      this.#update({});
    } catch {
      this.#visit.unhide(voiceId);
      this.#update({ notice: (words) => words.notDeleted });
    }
  }

  #played(side: Side, playing: boolean, fraction: number): void {
    if (side === "converted" && this.#state.scene === "done") {
      this.#ring.played(fraction);
      this.#face.move(playing ? fraction : 0);
    }
    if (playing) {
      this.#visit.silence();
      this.#samples.silence();
    }
    const now = playing ? side : this.#state.playing === side ? null : this.#state.playing;
    if (now === this.#state.playing) return;
    this.#update({ playing: now, notice: SILENCE });
  }

  #setupChanged(): void {
    this.#setup.keep();
    const { mode, summary, isPossible, character, typing } = this.#setup;
    const { scene, problem, speaker } = this.#state;
    // Whoever types does without the microphone.
    if (scene === "problem" && isOfTheMicrophone(problem) && mode === "type") this.#start();
    const wantsAnother =
      mode !== this.#state.mode || (mode === "type" && typing.text !== this.#usedText);
    const canRepeat = isPossible && !wantsAnother;
    this.#update({
      setupChanged: canRepeat && summary !== this.#usedSetup,
      wantsAnother,
      notice: SILENCE,
    });
    if (scene === "done" && character?.id !== speaker?.id)
      part("#repeat", HTMLElement).scrollIntoView({ block: "nearest" });
  }

  #offline(): void {
    if (this.#state.scene === "busy") this.#update({ notice: (words) => words.offlineWaiting });
  }

  async #online(): Promise<void> {
    if (this.#state.scene === "busy") this.#update({ notice: SILENCE });
    // Browsers say that they are online some moments before anything can be reached.
    for (const seconds of [0, 1, 3, 9]) {
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
      const { scene, problem } = this.#state;
      if (scene !== "problem" || (problem?.key !== "network" && problem?.key !== "page")) return;
      await this.#retry?.();
    }
  }
}
