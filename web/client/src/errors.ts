/** Errors with stable codes, and how answers become errors. */

/** Codes of the services: for a voice that failed, or for a refused request. */
export type ServerErrorCode =
  | "unsupported_format"
  | "corrupt"
  | "no_audio"
  | "too_short"
  | "too_long"
  | "too_large"
  | "silent"
  | "too_complex"
  | "unknown_character"
  | "source_missing"
  | "content_type_mismatch"
  | "attempts_exhausted"
  | "deadline_exceeded"
  | "upload_expired"
  | "internal"
  | "invalid_request"
  | "invalid_voice_id"
  | "unknown_voice"
  | "unreadable_voice"
  | "already_uploaded"
  | "unsupported_content_type"
  /** The configuration's token is not valid: the visitor must sign in again. */
  | "token_refused"
  /** The API requires Firebase App Check, and the request had no valid token. */
  | "app_check_refused"
  | "not_owner"
  | "pitch_not_adjustable"
  | "speech_not_taken"
  | "text_not_taken"
  | "text_too_long"
  | "text_unreadable"
  | "nothing_to_say"
  | "unknown_style"
  | "still_converting"
  | "rate_limited";

/** Codes that this module adds for errors that only the browser can see. */
export type ClientErrorCode =
  /** There is no connection, or it broke. */
  | "network"
  /** The signed address of the result is no longer valid. */
  | "link_expired"
  /** Cloud Storage refused the upload for a reason not listed above. */
  | "upload_refused"
  /** The service kept answering 5xx. */
  | "unavailable"
  /** No result came within the caller's time limit. */
  | "timed_out"
  /** The answer does not match the API's description. */
  | "bad_response";

/** An error with a stable code. Codes of newer servers pass through as plain strings. */
export class VoiceAvatarError extends Error {
  override readonly name = "VoiceAvatarError";
  readonly code: ServerErrorCode | ClientErrorCode | (string & {});
  /** HTTP status, if there was an answer. */
  readonly status: number | null;
  /** The server's `Retry-After` in seconds, if it sent one. */
  readonly retryAfter: number | null;

  constructor(
    code: VoiceAvatarError["code"],
    message: string,
    facts: { status?: number; retryAfter?: number | null; cause?: unknown } = {},
  ) {
    super(message, "cause" in facts ? { cause: facts.cause } : undefined);
    this.code = code;
    this.status = facts.status ?? null;
    this.retryAfter = facts.retryAfter ?? null;
  }
}

/** Returns the error in an answer of the API, `application/problem+json` or not. */
export async function problem(response: Response): Promise<VoiceAvatarError> {
  const body: unknown = await response.json().catch(() => null);
  const data = (body ?? {}) as { code?: string; detail?: string; title?: string };
  const code = data.code ?? (response.status >= 500 ? "unavailable" : "bad_response");
  const message = data.detail ?? data.title ?? "The request failed.";
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  return new VoiceAvatarError(code, message, {
    status: response.status,
    retryAfter: Number.isFinite(seconds) && seconds >= 0 ? seconds : null,
  });
}

/** Whether a later try may succeed. */
export function isPassing(error: VoiceAvatarError): boolean {
  const status = error.status ?? 0;
  return error.code === "network" || status === 429 || status >= 500;
}
