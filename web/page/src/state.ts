/** What the page shows at one moment. */
import type { Character } from "@voice-avatar/client";
import type { Mode } from "./modes.js";
import type { Problem } from "./problems.js";
import type { Sound } from "./sound.js";
import type { Words } from "./words.js";

export type Scene = "loading" | "start" | "recording" | "busy" | "done" | "problem";
export type Stage = "uploading" | "queued" | "converting" | "done";
export type Side = "own" | "converted";

export const STAGES: readonly Stage[] = ["uploading", "queued", "converting", "done"];

/** A sentence in either language. */
export type Notice = (words: Words) => string;

/** No sentence. */
export const SILENCE: Notice = () => "";

/** What belongs to one recording or text. */
interface Attempt {
  /** Whose voice the result has, or will have. */
  readonly speaker: Character | null;
  readonly problem: Problem | null;
  /** Whether the same recording can be sent again. */
  readonly canRetry: boolean;
  readonly canDelete: boolean;
  /** Whether character or wishes differ from those of the result that is shown. */
  readonly setupChanged: boolean;
  /** Whether the visitor has typed another text, or wants to speak instead of typing or the reverse. */
  readonly wantsAnother: boolean;
  readonly own: Sound | null;
  readonly converted: Sound | null;
  readonly download: { readonly address: string; readonly file: File } | null;
  readonly playing: Side | null;
  /** What no voice reads of the text, as the service names it. */
  readonly unread: string;
}

export interface State extends Attempt {
  readonly scene: Scene;
  readonly words: Words;
  /** The chosen character. */
  readonly character: Character | null;
  /** Whether there are characters that take speech and characters that take text. */
  readonly hasModes: boolean;
  /** How the result that is shown, or on its way, was asked for. */
  readonly mode: Mode;
  /** What the visitor wants to do next. */
  readonly wanted: Mode;
  readonly stage: Stage;
  /** Whether the character is heard while the visitor speaks. */
  readonly isHeard: boolean;
  /** The sentence in the status line. */
  readonly notice: Notice;
  /** Whether the visitor can still take a deletion back. */
  readonly canUndo: boolean;
}

/** Before anything has been recorded or typed. */
export const NOTHING_YET: Attempt = {
  speaker: null,
  problem: null,
  canRetry: false,
  canDelete: false,
  setupChanged: false,
  wantsAnother: false,
  own: null,
  converted: null,
  download: null,
  playing: null,
  unread: "",
};

export function initialState(words: Words): State {
  return {
    ...NOTHING_YET,
    scene: "loading",
    words,
    character: null,
    hasModes: false,
    mode: "speak",
    wanted: "speak",
    stage: "uploading",
    isHeard: false,
    notice: SILENCE,
    canUndo: false,
  };
}
