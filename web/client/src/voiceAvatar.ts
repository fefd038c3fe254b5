/**
 * Voice Avatar for web developers: it turns a few seconds of speech into the same
 * sentence in a character's voice.
 *
 * ```ts
 * const avatar = new VoiceAvatar({ api: "https://voices.example" });
 * const recording = recordSomehow(); // a Blob, or a promise of one that is still being spoken
 * const { result } = await avatar.convert(recording, { character: "mei", contentType: "audio/webm" });
 * audio.src = result.url;
 * ```
 *
 * The module draws nothing and stores nothing. It needs a browser (or anything else with `fetch`,
 * `XMLHttpRequest` and `AbortSignal`). Cloud Firestore's SDK is loaded only where a Firebase
 * project is configured; elsewhere the client waits on `GET /api/v1/conversion/{voice_id}`, or
 * uses the caller's listener.
 *
 * Every failure is a {@link VoiceAvatarError} with a stable `code`; an abort rejects with the
 * signal's own reason (an `AbortError`), as `fetch` does.
 */
import {
  asArray,
  parseAnnounced,
  parseCharacter,
  parseVerification,
  parseVoice,
} from "./answers.js";
import { Api, CHARACTERS } from "./api.js";
import { problem, VoiceAvatarError } from "./errors.js";
import { Line } from "./line.js";
import { LiveEnded, sendLive } from "./live.js";
import { Recording, type RecordingSource } from "./recording.js";
import { BROWSER, type Surroundings } from "./surroundings.js";
import type {
  AnnouncedVoice,
  Character,
  ConvertOptions,
  SpeakOptions,
  Verification,
  Voice,
  VoiceAvatarConfig,
  VoiceRequest,
  VoiceResult,
  VoiceUpdate,
} from "./types.js";
import { forward, never } from "./waiting.js";
import { Watcher } from "./watching.js";

export { type ClientErrorCode, type ServerErrorCode, VoiceAvatarError } from "./errors.js";
export { record, type RecordingSource } from "./recording.js";
export type { Surroundings } from "./surroundings.js";
export type * from "./types.js";

const VERIFICATIONS = "/api/v1/verifications";
const VOICES = "/api/v1/voices";
const WATCH_SECONDS = 300;
/** The service gives a file a minute to arrive, and a converter a minute to verify it. */
const VERIFICATION_SECONDS = 130;
const DOWNLOAD_SECONDS = 60;
const DELETION_SECONDS = 30;
/** How the ids of visitors' own characters begin. */
const OWN_PREFIX = "own-";
/** So long the audio may take over the socket after the document has said that the voice is done. */
const AUDIO_SECONDS = 0.5;

/** The client. Its only state is its configuration, so it can be shared. */
export class VoiceAvatar {
  readonly #api: Api;
  readonly #watcher: Watcher;
  readonly #around: Surroundings;
  readonly #keyOf: (characterId: string) => string | null;

  constructor(config: VoiceAvatarConfig, surroundings: Partial<Surroundings> = {}) {
    this.#around = { ...BROWSER, ...surroundings };
    this.#keyOf = config.ownCharacterKey ?? (() => null);
    this.#api = new Api(config, this.#around);
    this.#watcher = new Watcher(config, this.#api, this.#around);
  }

  /** Returns the available characters. */
  async characters(signal?: AbortSignal): Promise<Character[]> {
    const body = await this.#api.json("GET", CHARACTERS, { signal });
    return asArray(body["characters"], "characters").map((entry) =>
      parseCharacter(entry, this.#api.address),
    );
  }

  /**
   * Returns one character, also one that the list does not have because it is a visitor's own.
   *
   * @throws VoiceAvatarError `unknown_character`.
   */
  async character(id: string, signal?: AbortSignal): Promise<Character> {
    const path = `${CHARACTERS}/${encodeURIComponent(id)}`;
    const body = await this.#api.json("GET", path, { signal, headers: this.#secretOf(id) });
    return parseCharacter(body, this.#api.address);
  }

  /**
   * Announces a voice. The server makes its document and starts the warm-up of the conversion, so
   * call it when the recording *starts*: a cold container then starts during the recording.
   */
  async createVoice(request: VoiceRequest, signal?: AbortSignal): Promise<Voice> {
    const body = await this.#api.json("POST", VOICES, {
      signal,
      headers: this.#secretOf(request.character),
      body: {
        content_type: request.contentType,
        ...(request.character === undefined ? {} : { character: request.character }),
        ...(request.pitchShift === undefined ? {} : { pitch_shift: request.pitchShift }),
        ...(request.outputFormat === undefined ? {} : { output_format: request.outputFormat }),
      },
    });
    return parseVoice(body);
  }

  /**
   * Uploads the recording to the voice's signed address, directly into Cloud Storage.
   *
   * @throws VoiceAvatarError `too_large` before a byte is sent, `upload_expired`,
   *   `already_uploaded` (the address takes one recording only), `upload_refused`, `unavailable`
   *   or `network`.
   */
  upload(
    voice: Voice,
    recording: Blob,
    options: {
      readonly onProgress?: (sentBytes: number, totalBytes: number) => void;
      readonly signal?: AbortSignal | undefined;
    } = {},
  ): Promise<void> {
    const { maxBytes } = voice.upload;
    if (recording.size > maxBytes) {
      const message = `The recording has ${recording.size} bytes; at most ${maxBytes} are taken.`;
      return Promise.reject(new VoiceAvatarError("too_large", message));
    }
    return this.#around.put(voice.upload, recording, options.onProgress, options.signal);
  }

  /**
   * Waits until the voice is done and reports each change.
   *
   * Listens to the voice's document. Without a Firebase project and a listener of the caller, or
   * when the listener cannot be loaded, fails or stays silent, it waits on
   * `GET /api/v1/conversion/{voice_id}`, which does not report the stages.
   *
   * @throws VoiceAvatarError with the voice's own code when it failed, `unknown_voice` when it was
   *   deleted, `timed_out` after `seconds` (300 by default).
   */
  async watch(
    voice: AnnouncedVoice,
    options: {
      readonly onUpdate?: ((update: VoiceUpdate) => void) | undefined;
      readonly signal?: AbortSignal | undefined;
      readonly seconds?: number;
    } = {},
  ): Promise<VoiceResult> {
    const { onUpdate, signal, seconds = WATCH_SECONDS } = options;
    return await this.#watcher.watch(voice, onUpdate, seconds, signal);
  }

  /**
   * Does everything: announces the voice, hands the recording over, and waits for the result.
   *
   * Call it while the visitor still speaks, so that the warm-up starts meanwhile: with a promise of
   * the recording, or with its slices as they come (see {@link record}). Slices are sent at once
   * over a WebSocket where the service offers one, and the result is there sooner; if the socket
   * fails, the recording is uploaded as any other. When the recording fails or `signal` aborts,
   * the voice is deleted, because nobody waits for it.
   *
   * A crowded service answers 429 or 503. Then the call waits in line: for as long as `Retry-After`
   * says and a little longer, and for at most two minutes in all. `onProgress` is told each time
   * (`in_line`), and the recording is kept meanwhile.
   */
  async convert(
    recording: RecordingSource,
    options: ConvertOptions,
  ): Promise<{ voice: Voice; result: VoiceResult }> {
    const { onProgress, signal } = options;
    const scope = new AbortController();
    const stop = forward(signal, scope);
    const spoken = new Recording(recording, options.contentType);
    let voice: Voice | null = null;
    const handed = new Handover(onProgress);
    const line = new Line(this.#around, (seconds) => onProgress?.({ step: "in_line", seconds }));
    try {
      voice = await this.#createUnless(spoken, options, line, scope.signal);
      onProgress?.({ step: "created", voice });
      const watched = this.watch(voice, {
        onUpdate: (update) => onProgress?.({ step: "update", update }),
        signal: scope.signal,
      });
      watched.catch(() => undefined);
      const sent = this.#send(voice, spoken, options, handed, line, scope.signal);
      const result = await Promise.race([watched, sent.then((early) => early ?? watched)]);
      // The document may say first that the voice is done.
      if (handed.awaitsAudio) {
        const late = this.#around.pause(AUDIO_SECONDS, scope.signal);
        await Promise.race([handed.received, sent.catch(() => null), late]);
      }
      const { audio } = handed;
      return { voice, result: audio === null ? result : { ...result, audio } };
    } catch (error) {
      spoken.cancel();
      if (voice !== null && (!handed.isOver || signal?.aborted)) {
        void this.deleteVoice(voice.voiceId).catch(() => undefined);
      }
      throw error;
    } finally {
      stop();
      scope.abort();
    }
  }

  /**
   * Says whether a sound was made by this service: by its signed statement and its watermark.
   * At most 20 MB; the watermark is searched in the first minute. Nothing of it is kept.
   *
   * @throws VoiceAvatarError among others `too_large`, `too_long`, `unsupported_format`,
   *   `unavailable` while too many files are verified, `rate_limited`.
   */
  async verify(file: Blob, signal?: AbortSignal): Promise<Verification> {
    const options = { signal, body: file, seconds: VERIFICATION_SECONDS };
    return parseVerification(await this.#api.json("POST", VERIFICATIONS, options));
  }

  /**
   * Lets a character speak a text and waits for the result, in line as {@link convert} does. When
   * `signal` aborts, the voice is deleted.
   *
   * @throws VoiceAvatarError among others `text_not_taken`, `text_too_long`, `nothing_to_say`,
   *   `text_unreadable`.
   */
  async speak(
    text: string,
    options: SpeakOptions = {},
  ): Promise<{ voice: AnnouncedVoice; result: VoiceResult }> {
    const { onProgress, signal, outputFormat, englishWords, ...wishes } = options;
    const format = outputFormat === undefined ? {} : { output_format: outputFormat };
    const words = englishWords === undefined ? {} : { english_words: englishWords };
    const body = { text, ...wishes, ...words, ...format };
    const headers = this.#secretOf(wishes.character);
    const line = new Line(this.#around, (seconds) => onProgress?.({ step: "in_line", seconds }));
    const voice = parseAnnounced(
      await line.through(
        () => this.#api.json("POST", VOICES, { signal, body, headers }),
        signal ?? new AbortController().signal,
      ),
    );
    try {
      onProgress?.({ step: "created", voice });
      const onUpdate = (update: VoiceUpdate): void => onProgress?.({ step: "update", update });
      return { voice, result: await this.watch(voice, { onUpdate, signal }) };
    } catch (error) {
      if (signal?.aborted) void this.deleteVoice(voice.voiceId).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Fetches the converted audio. Its signed address is valid as long as the audio exists: after
   * that, the recording must be converted again.
   *
   * @throws VoiceAvatarError `link_expired`, `unavailable` or `network`.
   */
  async download(result: VoiceResult, signal?: AbortSignal): Promise<Blob> {
    if (result.audio) return result.audio;
    return await this.#api.within(DOWNLOAD_SECONDS, result.url, signal, (limit) =>
      this.#fetchResult(result, limit),
    );
  }

  async #fetchResult(result: VoiceResult, signal: AbortSignal): Promise<Blob> {
    const response = await this.#api.fetched(result.url, { signal });
    if ([400, 401, 403, 404, 410].includes(response.status)) {
      const message =
        "The address of the converted audio is no longer valid; convert the recording again.";
      throw new VoiceAvatarError("link_expired", message, { status: response.status });
    }
    if (!response.ok) {
      const message = `Cloud Storage answered ${response.status} for the converted audio.`;
      throw new VoiceAvatarError("unavailable", message, { status: response.status });
    }
    const body = await response.blob().catch((cause: unknown) => {
      signal.throwIfAborted();
      throw new VoiceAvatarError("network", "The download broke off.", { cause });
    });
    return body.type === result.contentType ? body : body.slice(0, body.size, result.contentType);
  }

  /** Erases recording, result and document now. It is no error if the voice no longer exists. */
  async deleteVoice(voiceId: string): Promise<void> {
    const path = `${VOICES}/${encodeURIComponent(voiceId)}`;
    await this.#api.within(DELETION_SECONDS, this.#api.address, undefined, async (signal) => {
      const response = await this.#api.request("DELETE", path, { keepalive: true, signal });
      if (!response.ok && response.status !== 404) throw await problem(response);
    });
  }

  /** The header by which the owner of a private character may speak with it. */
  #secretOf(character: string | undefined): Record<string, string> {
    const isOwn = character?.startsWith(OWN_PREFIX) ?? false;
    const key = character !== undefined && isOwn ? this.#keyOf(character) : null;
    return key === null ? {} : { "own-character-key": key };
  }

  async #createUnless(
    recording: Recording,
    request: VoiceRequest,
    line: Line,
    signal: AbortSignal,
  ): Promise<Voice> {
    const created = line.through(() => this.createVoice(request, signal), signal);
    try {
      await Promise.race([created, recording.whole.then(never)]);
    } catch (error) {
      // The recording failed first; the voice may exist already, or soon.
      void created.then((voice) => this.deleteVoice(voice.voiceId)).catch(() => undefined);
      throw error;
    }
    return await created;
  }

  /** Hands the recording over; returns the result if it came on the same way, otherwise null. */
  async #send(
    voice: Voice,
    recording: Recording,
    options: ConvertOptions,
    handover: Handover,
    line: Line,
    signal: AbortSignal,
  ): Promise<VoiceResult | null> {
    if (voice.live !== null && recording.sliced) {
      const listener = {
        onTaken: () => handover.end(),
        onConverted: (audio: Blob) => handover.receive(audio),
        onHeard: options.onHeard,
        onHearingEnded: (reason: string) => options.onProgress?.({ step: "hearing_ended", reason }),
      };
      handover.isLive = true;
      try {
        return await sendLive(
          voice.live,
          recording,
          options.contentType,
          listener,
          signal,
          this.#around,
        );
      } catch (error) {
        if (!(error instanceof LiveEnded)) throw error;
        handover.isLive = false;
        if (error.stored) {
          handover.end();
          return null;
        }
      }
    }
    const whole = await recording.whole;
    const onProgress = (sentBytes: number, totalBytes: number): void =>
      options.onProgress?.({ step: "uploading", sentBytes, totalBytes });
    await line
      .through(() => this.upload(voice, whole, { onProgress, signal }), signal)
      .catch(taken);
    handover.end();
    return null;
  }
}

/** How far the recording is on its way to the service, whichever way it takes. */
class Handover {
  /** The converted audio, if it came before the result. */
  audio: Blob | null = null;
  isOver = false;
  /** A socket carries the recording; the converted audio comes back over it. */
  isLive = false;
  /** Resolves when the converted audio is there. */
  readonly received: Promise<void>;
  #receive: () => void = () => undefined;
  readonly #tell: ConvertOptions["onProgress"];

  constructor(tell: ConvertOptions["onProgress"]) {
    this.#tell = tell;
    this.received = new Promise((resolve) => {
      this.#receive = resolve;
    });
  }

  /** The converted audio may still come over the socket. */
  get awaitsAudio(): boolean {
    return this.isLive && this.audio === null;
  }

  /** The service has the whole recording. */
  end(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#tell?.({ step: "uploaded" });
  }

  receive(audio: Blob): void {
    if (this.audio !== null) return;
    this.audio = audio;
    this.#receive();
    this.#tell?.({ step: "converted", audio });
  }
}

function taken(error: unknown): void {
  // The address accepts one recording, and only this client has it: so the answer was lost.
  if (error instanceof VoiceAvatarError && error.code === "already_uploaded") return;
  throw error;
}
