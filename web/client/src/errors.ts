/** Errors with stable codes, and how answers become errors. */

/** Codes that the services give: of a voice that failed, or of a refused request. */
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
  /** The token that the configuration gave does not hold: the visitor must sign in again. */
  | "token_refused"
  /** The API requires Firebase App Check, and the request had no valid token. */
  | "app_check_refused"
  | "not_owner"
  | "pitch_not_adjustable"
  | "still_converting"
  | "rate_limited";

/** Codes that this module adds for what only the browser can see. */
export type ClientErrorCode =
  /** No connection, or it broke. */
  | "network"
  /** The signed address of the result is no longer valid. */
  | "link_expired"
  /** Cloud Storage refused the upload for another reason than the ones above. */
  | "upload_refused"
  /** The service answered 5xx again and again. */
  | "unavailable"
  /** Nothing came within the time the caller gave. */
  | "timed_out"
  /** The answer is not what the API promises. */
  | "bad_response";

/** An error with a stable code. Codes of newer servers pass through as plain strings. */
export class VoiceAvatarError extends Error {
  override readonly name = "VoiceAvatarError";
  readonly code: ServerErrorCode | ClientErrorCode | (string & {});
  /** HTTP status, where there was one. */
  readonly status: number | null;
  /** Seconds after which the server wants to be asked again, where it said so. */
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

/** The error that an answer of the API tells of, as `application/problem+json` or otherwise. */
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

/** Whether asking again later may help. */
export function isPassing(error: VoiceAvatarError): boolean {
  const status = error.status ?? 0;
  return error.code === "network" || status === 429 || status >= 500;
}
