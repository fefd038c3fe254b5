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
  type Answer,
  asArray,
  asObject,
  parseCharacter,
  parseResult,
  parseVoice,
  readDocument,
} from "./answers.js";
import { isPassing, problem, VoiceAvatarError } from "./errors.js";
import type {
  Character,
  ConvertOptions,
  FirebaseConfig,
  Listen,
  Voice,
  VoiceAvatarConfig,
  VoiceRequest,
  VoiceResult,
  VoiceUpdate,
} from "./types.js";
import { put } from "./upload.js";
import { aborted, failureOf, forward, never, pause } from "./waiting.js";

export { type ClientErrorCode, type ServerErrorCode, VoiceAvatarError } from "./errors.js";
export type * from "./types.js";

/** What the client uses from outside; tests pass stand-ins. */
export interface Surroundings {
  readonly fetch: typeof fetch;
  /** Resolves to the Firestore listener; called only when a Firebase project is configured. */
  readonly loadListen: (firebase: FirebaseConfig, emulator: string | null) => Promise<Listen>;
  /** Resolves to what gets App Check's tokens; called before the first request that needs one. */
  readonly loadAppCheck: (
    firebase: FirebaseConfig,
    appCheck: { readonly appId: string; readonly siteKey: string },
  ) => Promise<() => Promise<string>>;
  /** Uploads a recording to its signed address. */
  readonly put: typeof put;
  /** Resolves after that many seconds; rejects with the signal's reason. */
  readonly pause: (seconds: number, signal: AbortSignal) => Promise<void>;
}

const BROWSER: Surroundings = {
  fetch: (input, init) => fetch(input, init),
  loadListen: async (firebase, emulator) =>
    (await import("./firestoreListener.js")).createListen(firebase, emulator),
  loadAppCheck: async (firebase, appCheck) =>
    (await import("./appCheck.js")).createAppCheck(firebase, appCheck),
  put,
  pause,
};

const CHARACTERS = "/api/v1/characters";
/** After this long without a message, loading included, the waiting endpoint replaces the listener. */
const FIRST_SNAPSHOT_SECONDS = 10;
const WATCH_SECONDS = 300;
/** So many failures in a row (of the network, or answers 5xx) end the waiting. */
const PATIENCE = 6;

/** The client. Its only state is its configuration, so it can be shared. */
export class VoiceAvatar {
  readonly #api: string;
  readonly #token: () => Promise<string | null>;
  readonly #attest: (() => Promise<string>) | null;
  readonly #loadListen: (() => Promise<Listen>) | null;
  readonly #around: Surroundings;

  constructor(config: VoiceAvatarConfig, surroundings: Partial<Surroundings> = {}) {
    const { firebase, firestoreEmulator, listen } = config;
    this.#around = { ...BROWSER, ...surroundings };
    this.#api = config.api.replace(/\/+$/, "");
    this.#token = config.token ?? (() => Promise.resolve(null));
    this.#attest = attestation(config, this.#around);
    if (listen) this.#loadListen = () => Promise.resolve(listen);
    else if (firebase)
      this.#loadListen = () => this.#around.loadListen(firebase, firestoreEmulator ?? null);
    else this.#loadListen = null;
  }

  /** Returns the available characters. */
  async characters(signal?: AbortSignal): Promise<Character[]> {
    const body = await this.#json("GET", "/api/v1/characters", { signal });
    return asArray(body["characters"], "characters").map((entry) =>
      parseCharacter(entry, this.#api),
    );
  }

  /**
   * Announces a voice. The server makes its document and starts the warm-up of the conversion, so
   * call it when the recording *starts*: a cold container then starts during the recording.
   */
  async createVoice(request: VoiceRequest, signal?: AbortSignal): Promise<Voice> {
    const body = await this.#json("POST", "/api/v1/voices", {
      signal,
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
    voice: Pick<Voice, "voiceId" | "document">,
    options: {
      readonly onUpdate?: ((update: VoiceUpdate) => void) | undefined;
      readonly signal?: AbortSignal | undefined;
      readonly seconds?: number;
    } = {},
  ): Promise<VoiceResult> {
    const seconds = options.seconds ?? WATCH_SECONDS;
    const scope = new AbortController();
    const stop = forward(options.signal, scope);
    const late = this.#late(seconds, scope.signal);
    try {
      return await Promise.race([this.#watch(voice, options.onUpdate, scope.signal), late]);
    } finally {
      stop();
      scope.abort();
    }
  }

  /**
   * Does everything: announces the voice, uploads the recording as soon as it exists, and waits
   * for the result.
   *
   * Pass a promise as `recording` to start the warm-up while the visitor still speaks. When
   * the promise rejects or `signal` aborts, the voice is deleted, because nobody waits for it.
   */
  async convert(
    recording: Blob | Promise<Blob>,
    options: ConvertOptions,
  ): Promise<{ voice: Voice; result: VoiceResult }> {
    const { onProgress, signal } = options;
    const scope = new AbortController();
    const stop = forward(signal, scope);
    let voice: Voice | null = null;
    let uploaded = false;
    try {
      voice = await this.#createUnless(recording, options, scope.signal);
      onProgress?.({ step: "created", voice });
      const result = this.watch(voice, {
        onUpdate: (update) => onProgress?.({ step: "update", update }),
        signal: scope.signal,
      });
      const sent = this.#send(
        voice,
        await this.#first(recording, result),
        onProgress,
        scope.signal,
      );
      await Promise.race([sent, result]);
      await sent;
      uploaded = true;
      onProgress?.({ step: "uploaded" });
      return { voice, result: await result };
    } catch (error) {
      if (voice !== null && (!uploaded || signal?.aborted)) {
        void this.deleteVoice(voice.voiceId).catch(() => undefined);
      }
      throw error;
    } finally {
      stop();
      scope.abort();
    }
  }

  /**
   * Fetches the converted audio. Its signed address is valid as long as the audio exists: after
   * that, the recording must be converted again.
   *
   * @throws VoiceAvatarError `link_expired`, `unavailable` or `network`.
   */
  async download(result: VoiceResult, signal?: AbortSignal): Promise<Blob> {
    const response = await this.#fetched(result.url, { signal: signal ?? null });
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
      signal?.throwIfAborted();
      throw new VoiceAvatarError("network", "The download broke off.", { cause });
    });
    return body.type === result.contentType ? body : body.slice(0, body.size, result.contentType);
  }

  /** Erases recording, result and document now. It is no error if the voice no longer exists. */
  async deleteVoice(voiceId: string): Promise<void> {
    const path = `/api/v1/voices/${encodeURIComponent(voiceId)}`;
    const response = await this.#request("DELETE", path, { keepalive: true });
    if (response.ok || response.status === 404) return;
    throw await problem(response);
  }

  async #createUnless(
    recording: Blob | Promise<Blob>,
    request: VoiceRequest,
    signal: AbortSignal,
  ): Promise<Voice> {
    const created = this.createVoice(request, signal);
    try {
      await Promise.race([created, failureOf(recording)]);
    } catch (error) {
      // The recording failed first; the voice may exist already, or soon.
      void created.then((voice) => this.deleteVoice(voice.voiceId)).catch(() => undefined);
      throw error;
    }
    return await created;
  }

  async #first(recording: Blob | Promise<Blob>, result: Promise<VoiceResult>): Promise<Blob> {
    return await Promise.race([recording, result.then(() => recording)]);
  }

  async #send(
    voice: Voice,
    recording: Blob,
    onProgress: ConvertOptions["onProgress"],
    signal: AbortSignal,
  ): Promise<void> {
    await this.upload(voice, recording, {
      onProgress: (sentBytes, totalBytes) =>
        onProgress?.({ step: "uploading", sentBytes, totalBytes }),
      signal,
    }).catch(taken);
  }

  async #watch(
    voice: Pick<Voice, "voiceId" | "document">,
    onUpdate: ((update: VoiceUpdate) => void) | undefined,
    signal: AbortSignal,
  ): Promise<VoiceResult> {
    if (this.#loadListen === null) return await this.#waitOnApi(voice.voiceId, signal);
    try {
      return await this.#listen(this.#loadListen, voice.document, onUpdate, signal);
    } catch (error) {
      if (!(error instanceof ListenerFailed)) throw error;
      return await this.#waitOnApi(voice.voiceId, signal);
    }
  }

  async #listen(
    loadListen: () => Promise<Listen>,
    document: string,
    onUpdate: ((update: VoiceUpdate) => void) | undefined,
    signal: AbortSignal,
  ): Promise<VoiceResult> {
    const heard = new AbortController();
    const stop = forward(signal, heard);
    const tell = changesOnly(onUpdate);
    // Starts before the SDK is loaded, because a stalled download counts as silence, too.
    const silence = this.#silence(heard.signal);
    let unsubscribe = (): void => undefined;
    try {
      const listen = await Promise.race([loaded(loadListen), silence, aborted(signal)]);
      const outcome = new Promise<VoiceResult>((resolve, reject) => {
        const onDocument = (data: Answer | null): void => {
          heard.abort();
          try {
            const { update, result } = readDocument(data);
            tell(update);
            if (result !== null) resolve(result);
          } catch (error) {
            reject(error);
          }
        };
        const onError = (cause: unknown): void =>
          reject(new ListenerFailed("Listening to the document failed.", { cause }));
        unsubscribe = listen(document, onDocument, onError);
      });
      return await Promise.race([outcome, silence, aborted(signal)]);
    } finally {
      stop();
      heard.abort();
      unsubscribe();
    }
  }

  async #silence(heard: AbortSignal): Promise<never> {
    const silent = await this.#around.pause(FIRST_SNAPSHOT_SECONDS, heard).then(
      () => true,
      () => false,
    );
    if (silent) throw new ListenerFailed("The listener stayed silent.");
    return await never();
  }

  async #late(seconds: number, signal: AbortSignal): Promise<never> {
    const late = await this.#around.pause(seconds, signal).then(
      () => true,
      () => false,
    );
    if (!late) return await never();
    throw new VoiceAvatarError("timed_out", `No result after ${seconds} seconds.`);
  }

  async #waitOnApi(voiceId: string, signal: AbortSignal): Promise<VoiceResult> {
    const path = `/api/v1/conversion/${encodeURIComponent(voiceId)}`;
    for (let failures = 0; ;) {
      try {
        return parseResult(
          asObject((await this.#json("GET", path, { signal }))["result"], "result"),
        );
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof VoiceAvatarError) || !isPassing(error)) throw error;
        // 504 means "not yet": the server waited as long as it may, and the client asks again.
        failures = error.status === 504 ? 0 : failures + 1;
        if (failures > PATIENCE) throw error;
        await this.#around.pause(error.retryAfter ?? Math.min(0.5 * 2 ** failures, 8), signal);
      }
    }
  }

  async #json(
    method: string,
    path: string,
    options: { signal?: AbortSignal | undefined; body?: unknown } = {},
  ): Promise<Answer> {
    const response = await this.#request(method, path, {
      signal: options.signal ?? null,
      ...(options.body === undefined
        ? {}
        : {
            headers: { "content-type": "application/json" },
            body: JSON.stringify(options.body),
          }),
    });
    if (!response.ok) throw await problem(response);
    return asObject(await response.json().catch(() => null), "body");
  }

  async #request(method: string, path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    const token = await this.#token();
    if (token !== null) headers.set("authorization", `Bearer ${token}`);
    // The API lists the characters without a token, so the page can show them before reCAPTCHA has loaded.
    if (this.#attest && !path.startsWith(CHARACTERS))
      headers.set("x-firebase-appcheck", await this.#attest());
    return await this.#fetched(`${this.#api}${path}`, { ...init, method, headers });
  }

  async #fetched(url: string, init: RequestInit): Promise<Response> {
    try {
      return await this.#around.fetch(url, {
        ...init,
        credentials: "omit",
        referrerPolicy: "no-referrer",
      });
    } catch (cause) {
      init.signal?.throwIfAborted();
      const message = `${new URL(url, "https://relative.invalid").host} could not be reached.`;
      throw new VoiceAvatarError("network", message, { cause });
    }
  }
}

/** Returns what gets App Check tokens; null if none is configured. */
function attestation(
  { appCheck, firebase }: VoiceAvatarConfig,
  around: Surroundings,
): (() => Promise<string>) | null {
  if (!appCheck) return null;
  if (typeof appCheck === "function") return appCheck;
  if ("token" in appCheck) return () => Promise.resolve(appCheck.token);
  if (!firebase)
    throw new TypeError("appCheck needs firebase: the project in which the page is registered.");
  let loading: Promise<() => Promise<string>> | null = null;
  return async () => {
    loading ??= around.loadAppCheck(firebase, appCheck).catch((cause: unknown) => {
      loading = null;
      throw cause;
    });
    return await (
      await loading
    )();
  };
}

/** The listener does not work; the waiting endpoint may. */
class ListenerFailed extends Error {}

function loaded(loadListen: () => Promise<Listen>): Promise<Listen> {
  return loadListen().catch((cause: unknown) => {
    throw new ListenerFailed("The Firestore SDK could not be loaded.", { cause });
  });
}

function changesOnly(
  onUpdate: ((update: VoiceUpdate) => void) | undefined,
): (update: VoiceUpdate) => void {
  let last = "";
  return (update) => {
    const now = `${update.status} ${update.stage}`;
    if (now !== last) onUpdate?.(update);
    last = now;
  };
}

function taken(error: unknown): void {
  // The address accepts one recording, and only this client has it: so the answer was lost.
  if (error instanceof VoiceAvatarError && error.code === "already_uploaded") return;
  throw error;
}
