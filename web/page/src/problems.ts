/** Maps an error's code to the sentence for the visitor and to what the visitor can do. */
import { VoiceAvatarError } from "@voice-avatar/client";
import type { ProblemKey } from "./words.js";

/** Errors that only the page can detect. */
export class PageError extends Error {
  override readonly name = "PageError";
  readonly code: ProblemKey;

  constructor(code: ProblemKey, cause?: unknown) {
    super(code, { cause });
    this.code = code;
  }
}

const SENTENCES: Readonly<Record<string, ProblemKey>> = {
  too_short: "too_short",
  too_long: "too_long",
  too_large: "too_large",
  silent: "silent",
  unsupported_format: "unsupported",
  unsupported_content_type: "unsupported",
  content_type_mismatch: "unsupported",
  corrupt: "unsupported",
  no_audio: "unsupported",
  too_complex: "unsupported",
  network: "network",
  upload_expired: "upload_expired",
  link_expired: "link_expired",
  rate_limited: "rate_limited",
  unavailable: "crowded",
  unknown_voice: "unknown_voice",
  unknown_character: "unknown_character",
  text_too_long: "text_too_long",
  nothing_to_say: "nothing_to_say",
  text_unreadable: "text_unreadable",
  text_not_taken: "wrong_character",
  speech_not_taken: "wrong_character",
  unknown_style: "wrong_character",
  deadline_exceeded: "timed_out",
  timed_out: "timed_out",
};

/** Errors that another try with the same recording or text would repeat. */
const HOPELESS: ReadonlySet<ProblemKey> = new Set([
  "too_short",
  "too_long",
  "too_large",
  "silent",
  "unsupported",
  "text_too_long",
  "nothing_to_say",
  "text_unreadable",
  "wrong_character",
]);

/** Errors of the microphone: whoever types does without it. */
const OF_THE_MICROPHONE: ReadonlySet<ProblemKey> = new Set([
  "microphone_refused",
  "no_microphone",
  "microphone_busy",
  "insecure",
  "unsupported_browser",
]);

export interface Problem {
  readonly key: ProblemKey;
  /** The code, for visitors who ask for help; null where the sentence says everything. */
  readonly code: string | null;
  readonly hopeless: boolean;
}

export function problemOf(error: unknown): Problem {
  if (error instanceof PageError)
    return { key: error.code, code: null, hopeless: isHopeless(error.code) };
  if (!(error instanceof VoiceAvatarError))
    return { key: "server", code: String(error), hopeless: false };
  const key = SENTENCES[error.code] ?? "server";
  return { key, code: key === "server" ? error.code : null, hopeless: isHopeless(key) };
}

export function isOfTheMicrophone(problem: Problem | null): boolean {
  return problem !== null && OF_THE_MICROPHONE.has(problem.key);
}

function isHopeless(key: ProblemKey): boolean {
  return HOPELESS.has(key);
}
