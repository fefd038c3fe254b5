/**
 * Characters of the visitor's own voice, where the operator allows them: the visitor reads aloud,
 * agrees in the own voice, and the service makes a character of it.
 *
 * ```ts
 * const owner = new OwnCharacters({ api: "https://voices.example" });
 * const { characterId, key, sentence } = await owner.begin({ ... });
 * await owner.bring({ characterId, key }, "speech", recording); // sentence after sentence
 * await owner.bring({ characterId, key }, "consent", spokenSentence);
 * await owner.train({ characterId, key });
 * ```
 *
 * Keep id and key: nobody can tell them again, but to who has signed in ({@link OwnCharacters.list}). Every failure is a {@link VoiceAvatarError}.
 */
import { type Answer, asArray, asObject, asString, parseUpload, stringOr } from "./answers.js";
import { Api } from "./api.js";
import { problem, VoiceAvatarError } from "./errors.js";
import { BROWSER, type Surroundings } from "./surroundings.js";
import type { Listen, VoiceAvatarConfig } from "./types.js";
import { forward } from "./waiting.js";
import { listenerOf } from "./watching.js";

const PATH = "/api/v1/own-characters";
const DELETION_SECONDS = 30;
const SOUND_SECONDS = 30;
/** Between two questions about a training, where there is no Firestore to listen to. */
const ASK_SECONDS = 2;
/** A listener can lose its connection without a word: then the api is asked. */
const NEWS_SECONDS = 60;
/** Longer than a training and those before it in the line. */
const TRAINING_SECONDS = 4 * 3600;
/** Where somebody still works at a character. */
const WORKING: ReadonlySet<string> = new Set(["queued", "training"]);
/** Failures that pass: the next question may be answered. */
const PASSING: ReadonlySet<string> = new Set(["network", "unavailable", "rate_limited"]);

/** What an owner holds: who knows the id may speak with the character, the key changes it. */
export interface OwnerOf {
  readonly characterId: string;
  /** Null for a character of an account, which the sign-in changes. */
  readonly key: string | null;
}

/** The terms to which an owner agrees. */
export interface OwnCharacterTerms {
  readonly name: string;
  readonly language: "en" | "ja";
  /** The name of whose voice it is. */
  readonly owner: string;
  /** An e-mail address or an https address. */
  readonly contact: string;
  readonly isMyOwnVoice: true;
  readonly noPublicFigureNoMinor: true;
}

export type RecordingKind = "speech" | "consent";

/** A recording that was uploaded. */
export interface OwnRecording {
  readonly recordingId: string;
  readonly kind: RecordingKind;
  readonly bytes: number;
}

/** Who may speak with a character besides its owner: nobody, who has the link, or everybody. */
export type Visibility = "private" | "link" | "public";

/** What an owner changes; what is missing stays as it is. */
export interface OwnCharacterChange {
  readonly name?: string;
  readonly visibility?: Visibility;
  /** Whether the recordings are kept when the training is done. */
  readonly keepsRecordings?: boolean;
}

/** How a character was measured; a figure is null where it could not be. */
export interface OwnCharacterCard {
  /** How much speech was learnt. */
  readonly seconds: number;
  /** How many seconds were not, by reason, such as `another_voice`, `echo` or `noise`. */
  readonly unused: Readonly<Record<string, number>>;
  /**
   * Likeness to the owner, 0 to 1, as a speaker encoder hears it, of recordings that were not
   * learnt: converted, as recorded, and as the synthesis alone says them.
   */
  readonly likeness: {
    readonly converted: number | null;
    readonly recorded: number | null;
    readonly reachable: number | null;
  };
  /** The same of other people: after the conversion and before. */
  readonly likenessOfOthers: { readonly converted: number | null; readonly before: number | null };
  /** English words that are understood otherwise after the conversion; null if nobody judged. */
  readonly words: { readonly wrong: number; readonly of: number } | null;
  /** What can be compared: `own-1-original`, `own-1-converted`, `other-1-original` and so on. */
  readonly sounds: readonly string[];
}

/** How far a character is. */
export interface OwnCharacterState {
  readonly name: string;
  readonly status: "collecting" | "queued" | "training" | "ready" | "failed";
  /** Firestore path of the document to listen to. */
  readonly document: string;
  /** What the owner has to say aloud. */
  readonly sentence: string;
  readonly recordings: readonly OwnRecording[];
  /** What the trainer does, and how much of it is done, 0 to 1. */
  readonly stage: string | null;
  readonly share: number | null;
  /** Why the last training failed. */
  readonly error: VoiceAvatarError | null;
  /** Ids of the recordings because of which it failed, where it is some of them. */
  readonly refusedRecordings: readonly string[];
  /** Whether it can be spoken with, also while a better training is made. */
  readonly isUsable: boolean;
  readonly visibility: Visibility;
  /** What the operator allows. */
  readonly allowedVisibilities: readonly Visibility[];
  readonly keepsRecordings: boolean;
  /** Whether its recordings were kept, so that it can be trained again with more of them. */
  readonly canTrainAgain: boolean;
}

/** One of the characters of an account. */
export interface ListedOwnCharacter {
  readonly characterId: string;
  readonly name: string;
  readonly language: "en" | "ja";
  readonly status: OwnCharacterState["status"];
  readonly isUsable: boolean;
  readonly visibility: Visibility;
  readonly createdAt: Date;
}

/** The client of an owner. */
export class OwnCharacters {
  readonly #api: Api;
  readonly #around: Surroundings;
  readonly #loadListen: (() => Promise<Listen>) | null;

  constructor(config: VoiceAvatarConfig, surroundings: Partial<Surroundings> = {}) {
    this.#around = { ...BROWSER, ...surroundings };
    this.#api = new Api(config, this.#around);
    this.#loadListen = listenerOf(config, this.#around);
  }

  /**
   * Begins a character.
   *
   * @throws VoiceAvatarError among others `not_found` where the operator offers none,
   *   `too_many_own_characters`, `sign_in_needed`, `invalid_request`.
   */
  async begin(
    terms: OwnCharacterTerms,
    signal?: AbortSignal,
  ): Promise<{ readonly characterId: string; readonly key: string; readonly sentence: string }> {
    const { isMyOwnVoice, noPublicFigureNoMinor, ...others } = terms;
    const agreed = {
      is_my_own_voice: isMyOwnVoice,
      no_public_figure_no_minor: noPublicFigureNoMinor,
    };
    const body = await this.#api.json("POST", PATH, { signal, body: { ...others, ...agreed } });
    return {
      characterId: asString(body["character_id"], "character_id"),
      key: asString(body["key"], "key"),
      sentence: asString(body["sentence"], "sentence"),
    };
  }

  /**
   * Uploads a recording; returns its id.
   *
   * @throws VoiceAvatarError among others `too_large`, `too_many_recordings`,
   *   `own_character_busy` once the training has begun.
   */
  async bring(
    owner: OwnerOf,
    kind: RecordingKind,
    recording: Blob,
    signal?: AbortSignal,
  ): Promise<string> {
    const body = { kind, content_type: recording.type };
    const options = { signal, body, headers: keyOf(owner) };
    const answer = await this.#api.json("POST", `${pathOf(owner)}/recordings`, options);
    const upload = parseUpload(asObject(answer["upload"], "upload"));
    if (recording.size > upload.maxBytes) {
      const message = `The recording has ${recording.size} bytes; at most ${upload.maxBytes} are taken.`;
      throw new VoiceAvatarError("too_large", message);
    }
    await this.#around.put(upload, recording, undefined, signal);
    return asString(answer["recording_id"], "recording_id");
  }

  /** Deletes a recording, so that it can be spoken again. */
  async remove(owner: OwnerOf, recordingId: string, signal?: AbortSignal): Promise<void> {
    await this.#delete(owner, `/recordings/${encodeURIComponent(recordingId)}`, signal);
  }

  /**
   * Begins the training.
   *
   * @throws VoiceAvatarError among others `recordings_missing`, `own_character_busy` after the
   *   third one that failed.
   */
  async train(owner: OwnerOf, signal?: AbortSignal): Promise<OwnCharacterState> {
    const options = { signal, headers: keyOf(owner) };
    return parseState(await this.#api.json("POST", `${pathOf(owner)}/training`, options));
  }

  /**
   * Lists the characters of who has signed in, at most 50, those that were begun last first.
   *
   * @throws VoiceAvatarError among others `sign_in_needed`.
   */
  async list(signal?: AbortSignal): Promise<readonly ListedOwnCharacter[]> {
    const body = await this.#api.json("GET", PATH, { signal });
    return asArray(body["characters"], "characters").map((each) =>
      parseListed(asObject(each, "character")),
    );
  }

  /** Says how far the character is. */
  async show(owner: OwnerOf, signal?: AbortSignal): Promise<OwnCharacterState> {
    const options = { signal, headers: keyOf(owner) };
    return parseState(await this.#api.json("GET", pathOf(owner), options));
  }

  /**
   * Renames, shares or withdraws the character, or says what becomes of its recordings.
   *
   * @throws VoiceAvatarError among others `not_allowed_here` for a visibility that the operator does
   *   not allow, `own_character_busy` for one that cannot be shared yet, `invalid_request`.
   */
  async change(
    owner: OwnerOf,
    change: OwnCharacterChange,
    signal?: AbortSignal,
  ): Promise<OwnCharacterState> {
    const { keepsRecordings, ...others } = change;
    const body =
      keepsRecordings === undefined ? others : { ...others, keeps_recordings: keepsRecordings };
    const options = { signal, body, headers: keyOf(owner) };
    return parseState(await this.#api.json("PATCH", pathOf(owner), options));
  }

  /**
   * Tells how the character was measured.
   *
   * @throws VoiceAvatarError among others `no_card`.
   */
  async card(owner: OwnerOf, signal?: AbortSignal): Promise<OwnCharacterCard> {
    const options = { signal, headers: keyOf(owner) };
    return parseCard(await this.#api.json("GET", `${pathOf(owner)}/card`, options));
  }

  /** Fetches a sound of the card. */
  async cardSound(owner: OwnerOf, sound: string, signal?: AbortSignal): Promise<Blob> {
    const { address } = this.#api;
    return await this.#api.within(SOUND_SECONDS, address, signal, async (limit) => {
      const path = `${pathOf(owner)}/card/${encodeURIComponent(sound)}`;
      const init = { signal: limit, headers: keyOf(owner) };
      const response = await this.#api.request("GET", path, init);
      if (!response.ok) throw await problem(response);
      return await response.blob();
    });
  }

  /**
   * Collects more recordings for a better training; the character stays usable meanwhile. The
   * answer has a new sentence to agree with aloud.
   *
   * @throws VoiceAvatarError among others `own_character_busy` if the recordings were not kept,
   *   `too_many_own_characters`.
   */
  async again(owner: OwnerOf, signal?: AbortSignal): Promise<OwnCharacterState> {
    const options = { signal, headers: keyOf(owner) };
    return parseState(await this.#api.json("POST", `${pathOf(owner)}/again`, options));
  }

  /**
   * Waits until the training has ended, well or not, and reports what changes.
   *
   * Listens to the character's document where the site has Firestore, and asks the api when it has
   * changed; elsewhere the api is asked every other second. What nobody answers is asked again.
   *
   * @throws VoiceAvatarError `unknown_own_character` when it was deleted, `timed_out`.
   */
  async wait(
    owner: OwnerOf,
    onState: (state: OwnCharacterState) => void,
    signal: AbortSignal,
  ): Promise<OwnCharacterState> {
    const news = new News();
    try {
      for (let waited = 0; waited < TRAINING_SECONDS;) {
        const state = await this.show(owner, signal).catch((error: unknown) => {
          if (error instanceof VoiceAvatarError && PASSING.has(error.code)) return null;
          throw error;
        });
        if (state !== null) onState(state);
        if (state !== null && !WORKING.has(state.status)) return state;
        if (state !== null && this.#loadListen !== null)
          news.listen(this.#loadListen, state.document);
        const seconds = news.isHeard ? NEWS_SECONDS : ASK_SECONDS;
        waited += (await this.#isSilent(news, seconds, signal)) ? seconds : 0;
      }
    } finally {
      news.end();
    }
    throw new VoiceAvatarError("timed_out", "The training has not ended in time.");
  }

  /** Whether there was no news for so long. */
  async #isSilent(news: News, seconds: number, signal: AbortSignal): Promise<boolean> {
    const scope = new AbortController();
    const stop = forward(signal, scope);
    const silence = this.#around.pause(seconds, scope.signal).then(() => true);
    try {
      return await Promise.race([silence, news.next().then(() => false)]);
    } finally {
      stop();
      scope.abort();
    }
  }

  /** Deletes the character and everything of it now. */
  async delete(owner: OwnerOf, signal?: AbortSignal): Promise<void> {
    await this.#delete(owner, "", signal);
  }

  async #delete(owner: OwnerOf, rest: string, signal?: AbortSignal): Promise<void> {
    const { address } = this.#api;
    await this.#api.within(DELETION_SECONDS, address, signal, async (limit) => {
      const init = { signal: limit, headers: keyOf(owner) };
      const response = await this.#api.request("DELETE", `${pathOf(owner)}${rest}`, init);
      if (!response.ok) throw await problem(response);
    });
  }
}

/** News of one document; nothing is heard of it until its listener is loaded. */
class News {
  /** Whether changes are told. */
  isHeard = false;
  #isBegun = false;
  #isEnded = false;
  #has = false;
  #tell: () => void = () => undefined;
  #unsubscribe: () => void = () => undefined;

  /** Begins to listen, once; a listener that fails is left. */
  listen(load: () => Promise<Listen>, document: string): void {
    if (this.#isBegun) return;
    this.#isBegun = true;
    const left = (): void => {
      this.isHeard = false;
    };
    load().then((listen) => {
      if (this.#isEnded) return;
      this.#unsubscribe = listen(
        document,
        () => {
          this.isHeard = true;
          this.#has = true;
          this.#tell();
        },
        left,
      );
    }, left);
  }

  /** Resolves when something has changed since the last time. */
  async next(): Promise<void> {
    if (!this.#has) await new Promise<void>((resolve) => (this.#tell = resolve));
    this.#has = false;
  }

  end(): void {
    this.#isEnded = true;
    this.#unsubscribe();
  }
}

function pathOf({ characterId }: OwnerOf): string {
  return `${PATH}/${encodeURIComponent(characterId)}`;
}

function keyOf({ key }: OwnerOf): Record<string, string> {
  return key === null ? {} : { "own-character-key": key };
}

function parseListed(body: Answer): ListedOwnCharacter {
  return {
    characterId: asString(body["character_id"], "character_id"),
    name: asString(body["name"], "name"),
    language: body["language"] === "ja" ? "ja" : "en",
    status: asString(body["status"], "status") as OwnCharacterState["status"],
    isUsable: body["is_usable"] === true,
    visibility: asString(body["visibility"], "visibility") as Visibility,
    createdAt: new Date(asString(body["created_at"], "created_at")),
  };
}

function parseState(body: Answer): OwnCharacterState {
  const { share, error } = body;
  return {
    name: asString(body["name"], "name"),
    status: asString(body["status"], "status") as OwnCharacterState["status"],
    document: asString(body["document"], "document"),
    sentence: asString(body["sentence"], "sentence"),
    recordings: asArray(body["recordings"], "recordings").map((each) => {
      const found = asObject(each, "recording");
      return {
        recordingId: asString(found["recording_id"], "recording_id"),
        kind: asString(found["kind"], "kind") as RecordingKind,
        bytes: Number(found["bytes"]),
      };
    }),
    stage: stringOr(body["stage"], null),
    share: typeof share === "number" ? share : null,
    error: error === null || error === undefined ? null : failed(asObject(error, "error")),
    refusedRecordings: refusedBy(error),
    isUsable: body["is_usable"] === true,
    visibility: asString(body["visibility"], "visibility") as Visibility,
    allowedVisibilities: asArray(body["allowed_visibilities"], "allowed_visibilities").map(
      (each) => asString(each, "visibility") as Visibility,
    ),
    keepsRecordings: body["keeps_recordings"] === true,
    canTrainAgain: body["can_train_again"] === true,
  };
}

function parseCard(body: Answer): OwnCharacterCard {
  const own = asObject(body["likeness"], "likeness");
  const others = asObject(body["likeness_of_others"], "likeness_of_others");
  const words = body["words"] === null ? null : asObject(body["words"], "words");
  return {
    seconds: Number(body["seconds"]),
    unused: Object.fromEntries(
      Object.entries(asObject(body["unused"] ?? {}, "unused")).map(([reason, seconds]) => [
        reason,
        Number(seconds),
      ]),
    ),
    likeness: {
      converted: numberOrNull(own["converted"]),
      recorded: numberOrNull(own["recorded"]),
      reachable: numberOrNull(own["reachable"]),
    },
    likenessOfOthers: {
      converted: numberOrNull(others["converted"]),
      before: numberOrNull(others["before"]),
    },
    words: words && { wrong: Number(words["wrong"]), of: Number(words["of"]) },
    sounds: asArray(body["sounds"], "sounds").map((each) => asString(each, "sound")),
  };
}

function numberOrNull(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function refusedBy(error: unknown): string[] {
  if (error === null || error === undefined) return [];
  const { recordings } = asObject(error, "error");
  return asArray(recordings ?? [], "recordings").map((each) => asString(each, "recording"));
}

function failed(error: Answer): VoiceAvatarError {
  return new VoiceAvatarError(
    asString(error["code"], "code"),
    asString(error["message"], "message"),
  );
}
