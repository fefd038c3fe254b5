/** The client's types: characters, voices, results. */

/** Where the services are, as in a site's `config.json`, and who the visitor is. */
export interface VoiceAvatarConfig {
  /** Base address of the HTTP API, without a trailing slash. */
  readonly api: string;
  /** The Firebase project with the documents; without it the client waits on the HTTP API. */
  readonly firebase?: FirebaseConfig | null;
  /** `host:port` of a Firestore emulator, for the local cloud. */
  readonly firestoreEmulator?: string | null;
  /**
   * The signed-in visitor's Firebase ID token, or null for an anonymous one. Called before each
   * request to the API and sent only there; if it rejects, the call rejects, too.
   */
  readonly token?: () => Promise<string | null>;
  /**
   * Firebase App Check, where the API requires it: its configuration from `config.json`, or a
   * function that returns a token. The client gets a token before each request about a voice.
   */
  readonly appCheck?: AppCheckConfig | (() => Promise<string>) | null;
  /**
   * The secret of a visitor's own character, if they hold it: only with it a private one can be
   * spoken with. Called with the ids of own characters, and sent only to the API.
   */
  readonly ownCharacterKey?: (characterId: string) => string | null;
  /** Listens as the signed-in visitor, in place of `firebase`, which does so as an anonymous one. */
  readonly listen?: Listen;
}

/** The public part of a Firebase web configuration. */
export interface FirebaseConfig {
  readonly projectId: string;
  readonly apiKey: string;
  /** The Firestore database with the documents; without it the project's default one. */
  readonly databaseId?: string;
  /** The web app of the project, where App Check is on. */
  readonly appId?: string;
}

/** Firebase App Check with reCAPTCHA Enterprise, or the fixed `token` of the local cloud. */
export type AppCheckConfig = RecaptchaConfig | { readonly token: string };

export interface RecaptchaConfig {
  readonly appId: string;
  readonly siteKey: string;
}

/** A character: the voice in which the visitor's words are heard. */
export interface Character {
  readonly id: string;
  readonly name: Readonly<Record<string, string>>;
  /** What kind of voice it is, by language. */
  readonly description: Readonly<Record<string, string>>;
  readonly credit: string;
  /** The credit by language, where the service knows more than one. */
  readonly credits: Readonly<Record<string, string>>;
  readonly licence: { readonly name: string; readonly url: string | null };
  readonly termsUrl: string | null;
  /** What its owner forbids: `commercial`, `redistribution`, `adult`, `politics`. */
  readonly forbiddenUses: readonly string[];
  /** Preview colour, `#rrggbb`. */
  readonly colour: string | null;
  readonly portraitUrl: string | null;
  /** What moves in the portrait while the character speaks; null if nothing does. */
  readonly face: Face | null;
  /** What its voices are made from. */
  readonly takes: "speech" | "text" | "both";
  /** Shortest and longest recording in seconds. */
  readonly limits: { readonly minSeconds: number; readonly maxSeconds: number };
  /** How it speaks text; null if it does not. */
  readonly text: TextAbility | null;
}

/** One feature of a square portrait: its middle and its width, as shares of the portrait's width. */
export interface Feature {
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

/** What moves in a portrait while the character speaks. */
export interface Face {
  readonly mouth: Feature;
  readonly eyes: readonly Feature[];
  /** The colour of the closed lids, and of the skin around the mouth: `#rrggbb`. */
  readonly skin: string;
}

/** How a character speaks text. */
export interface TextAbility {
  /** Longest text, in Unicode characters. */
  readonly maxCharacters: number;
  readonly styles: readonly Style[];
  /** Codes of the languages that it speaks, such as `ja` and `en`, the usual one first. */
  readonly languages: readonly string[];
}

/** A style in which a character speaks text. */
export interface Style {
  readonly id: number;
  readonly name: string;
  /** Who speaks in it, where the character has several speakers. */
  readonly speaker: string | null;
}

/** How to convert a recording. */
export interface VoiceRequest {
  /** The character's id; the server's default character if it is missing. */
  readonly character?: string;
  /** Semitones, or `"auto"`: the speaker's median pitch is moved to the character's. */
  readonly pitchShift?: "auto" | number;
  /** `wav`, `mp3`, `m4a` or `ogg`. */
  readonly outputFormat?: OutputFormat;
  /** Media type of the recording, exactly as it will be uploaded. */
  readonly contentType: string;
}

/** How a character speaks a text; each value is the character's usual one if it is missing. */
export interface TextRequest {
  /** The character's id; the server's first one that speaks text if it is missing. */
  readonly character?: string;
  /** From 0.5, half as fast, to 2, twice as fast. */
  readonly speed?: number;
  /** Semitones, from -12 to 12. */
  readonly pitch?: number;
  /** From 0, flat, to 2, twice as lively. */
  readonly intonation?: number;
  /** From 0 to 2. */
  readonly volume?: number;
  /** Length of the pauses, from 0 to 4. */
  readonly pauses?: number;
  /** Id of one of the character's styles. */
  readonly style?: number;
  /** Of the text, such as `en` or `es`; the service detects that of each sentence without it. */
  readonly language?: string;
  /** How English words inside of a Japanese sentence are spoken: `katakana` or `english`. */
  readonly englishWords?: "katakana" | "english";
  readonly outputFormat?: OutputFormat;
}

export type OutputFormat = "wav" | "mp3" | "m4a" | "ogg";

/** A voice that the service knows. */
export interface AnnouncedVoice {
  /** RFC 4122 UUID version 4; whoever holds it can read the voice and delete it. */
  readonly voiceId: string;
  /** Firestore path of the document to listen to. */
  readonly document: string;
  /** The languages and scripts of the parts of a text that no voice reads, such as `Korean, Thai`. */
  readonly unread?: string;
}

/** A voice that waits for its recording. */
export interface Voice extends AnnouncedVoice {
  readonly upload: SignedUpload;
  /** Where the recording can be sent while it is being spoken; null where the service has no such place. */
  readonly live: LiveOffer | null;
}

/** A WebSocket that takes this voice's recording; the protocol is `voice-avatar.live.v1`. */
export interface LiveOffer {
  readonly url: string;
  /** What proves to the service that the voice was announced. */
  readonly ticket: string;
  readonly expiresAt: Date | null;
}

/** A signed address that accepts one recording, once. */
export interface SignedUpload {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly expiresAt: Date;
  readonly maxBytes: number;
}

export type VoiceStatus = "waiting" | "queued" | "converting" | "done" | "failed";

/** The state in a voice's document at one moment. */
export interface VoiceUpdate {
  readonly status: VoiceStatus;
  /** The worker's current stage, if it is known. */
  readonly stage: string | null;
}

/** A sound of speech, as Open JTalk names it: `a`, `ky`, `N`, `cl` for a closure, a capital vowel for a
 * whispered one. */
export interface Phone {
  readonly phone: string;
  /** When it begins, in seconds after the first sample. */
  readonly begin: number;
}

/** The converted recording. */
export interface VoiceResult {
  /** Signed address, readable until `urlExpiresAt`. */
  readonly url: string;
  readonly urlExpiresAt: Date | null;
  readonly contentType: string;
  readonly bytes: number | null;
  readonly seconds: number | null;
  readonly sha256: string | null;
  /**
   * Seconds of the recording that could not be read and are missing in the result; 0 if the file
   * does not tell how many. Missing itself where the recording was whole, and for texts.
   */
  readonly missingSeconds?: number;
  /** What is said in the result of a text, for lips; missing where the voice does not know it. */
  readonly phones?: readonly Phone[];
  /** The audio itself, if it came with the result already. */
  readonly audio?: Blob;
}

/** A piece of the character's voice while the visitor still speaks: 24 kHz, mono, 16 bits. */
export interface HeardSound {
  /** Place of the first sample, counted from the beginning of the recording. */
  readonly firstSample: number;
  readonly samples: Int16Array;
}

/** Steps of {@link VoiceAvatar.convert}, in the order in which they usually come. */
export type ConvertProgress =
  /** The service is crowded and is asked again in that many seconds; nothing is lost meanwhile. */
  | { readonly step: "in_line"; readonly seconds: number }
  | { readonly step: "created"; readonly voice: Voice }
  | { readonly step: "uploading"; readonly sentBytes: number; readonly totalBytes: number }
  | { readonly step: "uploaded" }
  /** The character is heard no longer, or not at all: `busy`, `unsupported` or `unavailable`. */
  | { readonly step: "hearing_ended"; readonly reason: string }
  /** The audio is there, and the service is about to store it. */
  | { readonly step: "converted"; readonly audio: Blob }
  | { readonly step: "update"; readonly update: VoiceUpdate };

export interface ConvertOptions extends VoiceRequest {
  readonly onProgress?: (progress: ConvertProgress) => void;
  /**
   * Hears the character while the visitor speaks, about 0.3 s later: a preview, never the result.
   * Called only where the service and the character can do this; play it with headphones.
   */
  readonly onHeard?: (sound: HeardSound) => void;
  readonly signal?: AbortSignal;
}

/** Steps of {@link VoiceAvatar.speak}. */
export type SpeakProgress =
  /** The service is crowded and is asked again in that many seconds; nothing is lost meanwhile. */
  | { readonly step: "in_line"; readonly seconds: number }
  | { readonly step: "created"; readonly voice: AnnouncedVoice }
  | { readonly step: "update"; readonly update: VoiceUpdate };

export interface SpeakOptions extends TextRequest {
  readonly onProgress?: (progress: SpeakProgress) => void;
  readonly signal?: AbortSignal;
}

/** Listens to one document: its data, or null when the server says that it does not exist. */
export type Listen = (
  path: string,
  onDocument: (data: Readonly<Record<string, unknown>> | null) => void,
  onError: (error: unknown) => void,
) => () => void;

/** Whether a file was made here: by its signed statement and its watermark. */
export interface Verification {
  /** `unchanged`, `changed` and `copy`: made here; the others: there is no sign of it. */
  readonly verdict: "unchanged" | "changed" | "copy" | "signed_by_others" | "unknown";
  /** The verdict for people, by language (`en`, `ja`). */
  readonly sentences: Readonly<Record<string, string>>;
  /** The file's signed statement (C2PA). Its texts are the file's own: show them as text only. */
  readonly credentials: {
    readonly state: "ours" | "valid" | "changed" | "invalid" | "missing";
    readonly madeWith: string;
    readonly character: string;
    readonly issuer: string;
    /** The time of its time stamp, RFC 3339; empty without one. */
    readonly signedAt: string;
    readonly forbiddenUses: readonly string[];
  };
  readonly watermark: {
    readonly state: "found" | "not_found" | "not_searched";
    /** The 16 bits that the operator chose, as a number; null unless it is found. */
    readonly bits: number | null;
    /** How often chance alone would look as much like a watermark, at most. */
    readonly chance: number | null;
  };
}
