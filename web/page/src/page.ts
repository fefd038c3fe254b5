/** The visitor's way through the page: choose, speak, wait, listen. */
import type {
  Character,
  ConvertProgress,
  Voice,
  VoiceAvatar,
  VoiceResult,
} from "@voice-avatar/client";
import { part } from "./elements.js";
import { PageError, problemOf } from "./problems.js";
import { Recorder, recordingType } from "./recorder.js";
import { Ring, TICKS } from "./ring.js";
import { pageLimits, Setup } from "./setup.js";
import { contentTypeOf, decode, judge, outline, Player, type Sound } from "./sound.js";
import { type Side, STAGES, type Stage, type State, showPlayed, View } from "./view.js";
import { BARS, drawWaveform } from "./waveform.js";
import { type Language, WORDS } from "./words.js";

const OUTPUT_FORMAT = "mp3";
const SILENCE = (): string => "";
/** The part of the ring that has the character's colour, for each stage. */
const TURNED: Readonly<Record<Stage, number>> = {
  uploading: 0.25,
  queued: 0.4,
  converting: 0.7,
  done: 1,
};

/** A recording and its media type. */
interface Take {
  readonly blob: Blob;
  readonly contentType: string;
}

export class Page {
  readonly #client: VoiceAvatar;
  readonly #view = new View();
  readonly #ring = new Ring(part("#ring", HTMLElement));
  readonly #setup = new Setup(() => this.#setupChanged());
  readonly #players: Readonly<Record<Side, Player>> = {
    own: new Player((playing, fraction) => this.#played("own", playing, fraction)),
    converted: new Player((playing, fraction) => this.#played("converted", playing, fraction)),
  };
  #state: State;
  #work = new AbortController();
  #recorder: Recorder | null = null;
  #take: Take | null = null;
  #voice: Voice | null = null;
  #usedSetup = "";
  #retry: (() => Promise<void>) | null = null;
  #addresses: string[] = [];

  constructor(client: VoiceAvatar, language: Language) {
    this.#client = client;
    this.#state = {
      scene: "loading",
      words: WORDS[language],
      character: null,
      stage: "uploading",
      problem: null,
      canRetry: false,
      canDelete: false,
      setupChanged: false,
      notice: SILENCE,
      own: null,
      converted: null,
      download: null,
      playing: null,
    };
    this.#listen();
  }

  /** Loads the characters and opens the page. */
  async open(): Promise<void> {
    this.#update({ scene: "loading", problem: null, canRetry: false });
    try {
      this.#setup.offer(await this.#client.characters());
      this.#start();
    } catch {
      this.#fail(new PageError("page"), () => this.open());
    }
  }

  speak(language: Language): void {
    this.#update({ words: WORDS[language] });
  }

  #update(change: Partial<State>): void {
    this.#state = { ...this.#state, ...change, character: this.#setup.character };
    this.#setup.render(this.#state.words);
    this.#view.render(this.#state);
  }

  #listen(): void {
    part("#main", HTMLButtonElement).addEventListener("click", () => void this.#pressed());
    part("#again", HTMLButtonElement).addEventListener("click", () => void this.#record());
    part("#convert-again", HTMLButtonElement).addEventListener(
      "click",
      () => void this.#convertTake(),
    );
    part("#delete", HTMLButtonElement).addEventListener("click", () => void this.#delete());
    for (const side of ["own", "converted"] as const) {
      part(`#${side} button`, HTMLButtonElement).addEventListener("click", () =>
        this.#toggle(side),
      );
    }
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#cancel();
    });
    window.addEventListener("online", () => this.#online());
    window.addEventListener("offline", () => this.#offline());
  }

  /** Takes a file instead of a recording, unless the page is busy. */
  async takeFile(file: File): Promise<void> {
    if (!["start", "done", "problem"].includes(this.#state.scene)) return;
    this.#forget();
    await this.#attempt(async (signal) => {
      const take = { blob: file, contentType: contentTypeOf(file) };
      const sound = await decode(file);
      // Meanwhile the visitor may have started a recording or dropped another file.
      signal.throwIfAborted();
      this.#take = take;
      this.#hear(sound);
      judge(sound, this.#limits);
      await this.#convert(take.blob, take.contentType);
    });
  }

  async #pressed(): Promise<void> {
    const { scene } = this.#state;
    if (scene === "start") await this.#record();
    else if (scene === "recording") this.#recorder?.stop();
    else if (scene === "busy") this.#cancel();
    else if (scene === "done") this.#toggle("converted");
    else if (scene === "problem") await (this.#retry ?? (() => this.#record()))();
  }

  get #limits(): Character["limits"] {
    return pageLimits(this.#setup.character);
  }

  #start(notice: State["notice"] = SILENCE): void {
    this.#forget();
    this.#ring.clear();
    this.#update({ scene: "start", notice });
  }

  /** Removes everything that an earlier recording left. */
  #forget(): void {
    this.#work.abort();
    this.#work = new AbortController();
    this.#recorder = null;
    for (const player of Object.values(this.#players)) player.clear();
    for (const address of this.#addresses.splice(0)) URL.revokeObjectURL(address);
    this.#take = null;
    this.#voice = null;
    this.#retry = null;
    this.#state = {
      ...this.#state,
      problem: null,
      canRetry: false,
      canDelete: false,
      setupChanged: false,
      own: null,
      converted: null,
      download: null,
      playing: null,
    };
  }

  async #record(): Promise<void> {
    if (this.#recorder !== null) return;
    this.#forget();
    await this.#attempt(async (signal) => {
      const contentType = recordingType();
      if (contentType === null) throw new PageError("unsupported_browser");
      const recorder = this.#startRecorder(contentType);
      const spoken = recorder.finished.then((blob) => this.#spoken({ blob, contentType }, signal));
      await this.#convert(spoken, contentType);
    });
  }

  #startRecorder(contentType: string): Recorder {
    const { maxSeconds } = this.#limits;
    this.#ring.clear();
    this.#update({ scene: "start", notice: (w) => w.waitingForMicrophone });
    const last = { announced: false };
    this.#recorder = new Recorder({
      contentType,
      maxSeconds,
      signal: this.#work.signal,
      onStart: () =>
        this.#update({ scene: "recording", notice: (w) => w.recordingStarted(String(maxSeconds)) }),
      onLevel: (level, seconds) => {
        this.#ring.meter(level, seconds, maxSeconds);
        this.#view.countdown(maxSeconds - seconds, this.#state.words);
        if (maxSeconds - seconds > 3 || last.announced) return;
        last.announced = true;
        this.#update({ notice: (w) => w.secondsLeft("3") });
      },
    });
    return this.#recorder;
  }

  async #spoken(take: Take, signal: AbortSignal): Promise<Blob> {
    const sound = await decode(take.blob);
    signal.throwIfAborted();
    this.#take = take;
    this.#hear(sound);
    judge(sound, this.#limits);
    return take.blob;
  }

  /** Shows the visitor's own recording and lets the visitor play it. */
  #hear(sound: Sound | null): void {
    const levels =
      sound === null ? Array.from({ length: TICKS }, () => 0.3) : outline(sound, TICKS);
    this.#ring.pulse(0);
    this.#ring.draw(levels);
    this.#ring.turn(0);
    if (sound !== null) this.#load("own", sound);
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
    this.#forget();
    this.#take = take;
    await this.#attempt(async () => {
      this.#hear(own);
      await this.#convert(take.blob, take.contentType);
    });
  }

  async #convert(recording: Blob | Promise<Blob>, contentType: string): Promise<void> {
    const { signal } = this.#work;
    const character = this.#setup.character;
    this.#usedSetup = this.#setupNow;
    // A visitor who is speaking is not interrupted: the error is shown afterwards.
    const finished = Promise.resolve(recording);
    const conversion = this.#client.convert(finished, {
      contentType,
      pitchShift: this.#setup.pitchShift,
      outputFormat: OUTPUT_FORMAT,
      ...(character === null ? {} : { character: character.id }),
      onProgress: (progress) => this.#progress(progress),
      signal,
    });
    conversion.catch(() => undefined);
    await finished;
    const { result } = await conversion;
    signal.throwIfAborted();
    await this.#fetchResult(result);
  }

  async #fetchResult(result: VoiceResult): Promise<void> {
    const { signal } = this.#work;
    const blob = await this.#client.download(result, signal);
    const sound = await decode(blob);
    signal.throwIfAborted();
    this.#done(
      blob,
      sound ?? { blob, seconds: result.seconds ?? 1, samples: new Float32Array(BARS) },
    );
  }

  #done(blob: Blob, sound: Sound): void {
    const address = this.#load("converted", sound);
    this.#ring.draw(outline(sound, TICKS));
    this.#ring.turn(1);
    this.#update({
      scene: "done",
      stage: "done",
      converted: sound,
      canDelete: true,
      setupChanged: false,
      download: { address, name: fileName(this.#setup.character?.id ?? "voice", blob.type) },
      notice: SILENCE,
    });
    this.#toggle("converted");
  }

  #load(side: Side, sound: Sound): string {
    const address = URL.createObjectURL(sound.blob);
    this.#addresses.push(address);
    this.#players[side].load(address, sound.seconds);
    const direction = side === "own" ? "up" : "down";
    drawWaveform(part(`#${side} .wave`, SVGElement), outline(sound, BARS), direction);
    showPlayed(side, 1);
    return address;
  }

  #progress(progress: ConvertProgress): void {
    if (progress.step === "created") {
      this.#voice = progress.voice;
    } else if (progress.step === "uploading") {
      const share = progress.sentBytes / Math.max(1, progress.totalBytes);
      this.#ring.turn(share * TURNED.uploading);
    } else if (progress.step === "update") {
      this.#stage(progress.update.status as Stage);
    }
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
      this.#fail(error, this.#take === null ? null : () => this.#convertTake());
    } finally {
      // The attempt that replaced this one may be recording.
      if (!signal.aborted) this.#recorder = null;
    }
  }

  #fail(error: unknown, retry: (() => Promise<void>) | null): void {
    const problem = problemOf(error);
    this.#retry = problem.hopeless ? null : (retry ?? (() => this.#record()));
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

  async #delete(): Promise<void> {
    const voice = this.#voice;
    const { signal } = this.#work;
    if (voice === null) return;
    try {
      await this.#client.deleteVoice(voice.voiceId);
      if (signal.aborted) return;
      this.#start((words) => words.deleted);
      part("#main", HTMLButtonElement).focus();
    } catch {
      this.#update({ notice: (words) => words.notDeleted });
    }
  }

  #toggle(side: Side): void {
    const player = this.#players[side];
    if (player.playing) {
      player.pause();
      return;
    }
    this.#players[side === "own" ? "converted" : "own"].pause();
    // A browser may require another click before it plays; the play button is visible.
    player.play().catch(() => undefined);
  }

  #played(side: Side, playing: boolean, fraction: number): void {
    showPlayed(side, fraction);
    if (side === "converted" && this.#state.scene === "done") this.#ring.played(fraction);
    const now = playing ? side : this.#state.playing === side ? null : this.#state.playing;
    if (now === this.#state.playing) return;
    this.#update({ playing: now, notice: SILENCE });
  }

  get #setupNow(): string {
    return `${this.#setup.character?.id} ${this.#setup.pitchShift}`;
  }

  #setupChanged(): void {
    this.#update({ setupChanged: this.#take !== null && this.#setupNow !== this.#usedSetup });
  }

  #offline(): void {
    if (this.#state.scene === "busy") this.#update({ notice: (words) => words.offlineWaiting });
  }

  #online(): void {
    const { scene, problem } = this.#state;
    if (scene === "busy") this.#update({ notice: SILENCE });
    if (scene === "problem" && (problem?.key === "network" || problem?.key === "page"))
      void this.#retry?.();
  }
}

/** Lets a file be dropped anywhere on the page, or chosen. */
export function acceptFiles(take: (file: File) => void): void {
  const veil = part("#drop", HTMLElement);
  const input = part("#file", HTMLInputElement);
  input.addEventListener("change", () => {
    const file = input.files?.[0];
    if (file !== undefined) take(file);
    input.value = "";
  });
  const hasFile = (event: DragEvent): boolean =>
    event.dataTransfer?.types.includes("Files") ?? false;
  document.addEventListener("dragover", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    veil.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) veil.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    veil.hidden = true;
    const file = event.dataTransfer?.files[0];
    if (file !== undefined) take(file);
  });
}

function fileName(character: string, contentType: string): string {
  const endings: Readonly<Record<string, string>> = {
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
  };
  const moment = new Date().toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
  return `${character}-${moment}.${endings[contentType.split(";")[0] ?? ""] ?? "audio"}`;
}
