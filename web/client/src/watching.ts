/** Waits for the end of one voice: listens to its document, or asks the API. */
import { type Answer, asObject, parseResult, readDocument } from "./answers.js";
import type { Api } from "./api.js";
import { isPassing, VoiceAvatarError } from "./errors.js";
import type { Surroundings } from "./surroundings.js";
import type {
  AnnouncedVoice,
  Listen,
  VoiceAvatarConfig,
  VoiceResult,
  VoiceUpdate,
} from "./types.js";
import { aborted, forward, never } from "./waiting.js";

/** After this long without a message, loading included, the waiting endpoint replaces the listener. */
const FIRST_SNAPSHOT_SECONDS = 10;
/** A listener can lose its connection without a word. After this long without news, or up to twice as
 * long, the waiting endpoint is asked beside it. */
const NEWS_SECONDS = 15;
/** How long the waiting endpoint may stay silent: it answers 504 long before, by itself. */
const WAITING_SECONDS = 120;
/** So many failures in a row (of the network, or answers 5xx) end the waiting. */
const PATIENCE = 6;
/** Later by up to this share than a crowded service asked for. */
const JITTER = 0.5;

/** Returns what loads the listener in Firestore; null where the site has none. */
export function listenerOf(
  { appCheck, firebase, firestoreEmulator, listen }: VoiceAvatarConfig,
  around: Surroundings,
): (() => Promise<Listen>) | null {
  if (listen) return () => Promise.resolve(listen);
  const checked = appCheck && "siteKey" in appCheck ? appCheck : null;
  if (firebase) return () => around.loadListen(firebase, firestoreEmulator ?? null, checked);
  return null;
}

type OnUpdate = ((update: VoiceUpdate) => void) | undefined;

export class Watcher {
  readonly #api: Api;
  readonly #loadListen: (() => Promise<Listen>) | null;
  readonly #pause: Surroundings["pause"];
  readonly #random: Surroundings["random"];

  constructor(config: VoiceAvatarConfig, api: Api, around: Surroundings) {
    this.#api = api;
    this.#pause = around.pause;
    this.#random = around.random;
    this.#loadListen = listenerOf(config, around);
  }

  /** Resolves with the voice's result; rejects with its error, or `timed_out`. */
  async watch(
    voice: AnnouncedVoice,
    onUpdate: OnUpdate,
    seconds: number,
    signal: AbortSignal | undefined,
  ): Promise<VoiceResult> {
    const scope = new AbortController();
    const stop = forward(signal, scope);
    const late = this.#late(seconds, scope.signal);
    try {
      return await Promise.race([this.#wait(voice, onUpdate, scope.signal), late]);
    } finally {
      stop();
      scope.abort();
    }
  }

  async #wait(
    voice: AnnouncedVoice,
    onUpdate: OnUpdate,
    signal: AbortSignal,
  ): Promise<VoiceResult> {
    if (this.#loadListen === null) return await this.#waitOnApi(voice.voiceId, signal);
    try {
      return await this.#listen(this.#loadListen, voice, onUpdate, signal);
    } catch (error) {
      if (!(error instanceof ListenerFailed)) throw error;
      return await this.#waitOnApi(voice.voiceId, signal);
    }
  }

  async #listen(
    loadListen: () => Promise<Listen>,
    voice: AnnouncedVoice,
    onUpdate: OnUpdate,
    signal: AbortSignal,
  ): Promise<VoiceResult> {
    const heard = new AbortController();
    const stop = forward(signal, heard);
    const tell = changesOnly(onUpdate);
    // Starts before the SDK is loaded, because a stalled download counts as silence, too.
    const silence = this.#silence(heard.signal);
    let unsubscribe = (): void => undefined;
    let messages = 0;
    try {
      const listen = await Promise.race([loaded(loadListen), silence, aborted(signal)]);
      const outcome = new Promise<VoiceResult>((resolve, reject) => {
        const onDocument = (data: Answer | null): void => {
          heard.abort();
          messages += 1;
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
        unsubscribe = listen(voice.document, onDocument, onError);
      });
      const beside = this.#besideADeafListener(voice.voiceId, () => messages, signal);
      return await Promise.race([outcome, silence, beside, aborted(signal)]);
    } finally {
      stop();
      heard.abort();
      unsubscribe();
    }
  }

  async #silence(heard: AbortSignal): Promise<never> {
    if (!(await this.#passes(FIRST_SNAPSHOT_SECONDS, heard))) return await never();
    throw new ListenerFailed("The listener stayed silent.");
  }

  /** Asks the waiting endpoint once the listener has had no news for long; it may still be right. */
  async #besideADeafListener(
    voiceId: string,
    messages: () => number,
    signal: AbortSignal,
  ): Promise<VoiceResult> {
    for (let before = -1; before !== messages();) {
      before = messages();
      if (!(await this.#passes(NEWS_SECONDS, signal))) return await never();
    }
    try {
      return await this.#waitOnApi(voiceId, signal);
    } catch (error) {
      if (signal.aborted || (error instanceof VoiceAvatarError && isPassing(error)))
        return await never();
      throw error;
    }
  }

  async #late(seconds: number, signal: AbortSignal): Promise<never> {
    if (!(await this.#passes(seconds, signal))) return await never();
    throw new VoiceAvatarError("timed_out", `No result after ${seconds} seconds.`);
  }

  /** Whether that many seconds passed before the signal. */
  #passes(seconds: number, signal: AbortSignal): Promise<boolean> {
    return this.#pause(seconds, signal).then(
      () => true,
      () => false,
    );
  }

  async #waitOnApi(voiceId: string, signal: AbortSignal): Promise<VoiceResult> {
    const path = `/api/v1/conversion/${encodeURIComponent(voiceId)}`;
    for (let failures = 0; ;) {
      try {
        return parseResult(
          asObject(
            (await this.#api.json("GET", path, { signal, seconds: WAITING_SECONDS }))["result"],
            "result",
          ),
        );
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof VoiceAvatarError) || !isPassing(error)) throw error;
        // 504 means "not yet": the server waited as long as it may, and the client asks again. A
        // crowded server says when to come back; the time limit of the call ends that.
        failures = error.status === 504 || error.retryAfter !== null ? 0 : failures + 1;
        if (failures > PATIENCE) throw error;
        const later = error.status === 504 ? 1 : 1 + JITTER * this.#random();
        await this.#pause(
          error.retryAfter === null ? Math.min(0.5 * 2 ** failures, 8) : error.retryAfter * later,
          signal,
        );
      }
    }
  }
}

/** The listener does not work; the waiting endpoint may. */
class ListenerFailed extends Error {}

function loaded(loadListen: () => Promise<Listen>): Promise<Listen> {
  return loadListen().catch((cause: unknown) => {
    throw new ListenerFailed("The Firestore SDK could not be loaded.", { cause });
  });
}

function changesOnly(onUpdate: OnUpdate): (update: VoiceUpdate) => void {
  let last = "";
  return (update) => {
    const now = `${update.status} ${update.stage}`;
    if (now !== last) onUpdate?.(update);
    last = now;
  };
}
