/** Uploads one recording to one signed address. */
import { VoiceAvatarError } from "./errors.js";
import type { SignedUpload } from "./types.js";

/** Signed headers that a script may not set: the browser sets them. */
const SET_BY_THE_BROWSER: ReadonlySet<string> = new Set(["content-length", "host"]);

/** After so long without progress, or without an answer to the whole, an upload has died. */
const STANDSTILL_SECONDS = 30;
const STOOD_STILL = `The upload stood still for ${STANDSTILL_SECONDS} seconds. The recording is still here.`;

/** Uploads the recording with PUT; rejects with a `VoiceAvatarError`, or with the signal's reason. */
export function put(
  target: SignedUpload,
  recording: Blob,
  onProgress: ((sentBytes: number, totalBytes: number) => void) | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  // XMLHttpRequest, because fetch does not report how much of a body has been sent.
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const request = new XMLHttpRequest();
    const abort = (): void => request.abort();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const waitOn = (): void => {
      clearTimeout(timer);
      timer = setTimeout(abort, STANDSTILL_SECONDS * 1000);
    };
    signal?.addEventListener("abort", abort, { once: true });
    request.upload.onprogress = (event) => {
      waitOn();
      onProgress?.(event.loaded, recording.size);
    };
    request.onloadend = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
    request.onabort = () =>
      reject(signal?.aborted ? signal.reason : new VoiceAvatarError("network", STOOD_STILL));
    request.onerror = () =>
      reject(new VoiceAvatarError("network", "The upload broke off. The recording is still here."));
    request.onload = () => {
      const error = uploadError(request.status, request.responseText, target.expiresAt);
      if (error === null) resolve();
      else reject(error);
    };
    request.open(target.method, target.url);
    for (const [name, value] of Object.entries(target.headers)) {
      if (SET_BY_THE_BROWSER.has(name.toLowerCase())) continue;
      request.setRequestHeader(name, value);
    }
    waitOn();
    request.send(recording);
  });
}

function uploadError(status: number, body: string, expiresAt: Date): VoiceAvatarError | null {
  if (status >= 200 && status < 300) return null;
  const reason = /<Code>(\w+)<\/Code>/.exec(body)?.[1] ?? "";
  const [code, message] = refusal(status, reason, Date.now() > expiresAt.getTime());
  return new VoiceAvatarError(code, message, { status });
}

function refusal(status: number, reason: string, late: boolean): readonly [string, string] {
  const unexpected = `Cloud Storage refused the upload: ${status} ${reason}`;
  if (status === 412) return ["already_uploaded", "This voice has its recording already."];
  if (status === 413 || reason === "EntityTooLarge") {
    return ["too_large", "The recording is larger than was signed."];
  }
  if (status >= 500 || status === 429) return ["unavailable", unexpected];
  if (late || reason === "ExpiredToken") {
    return ["upload_expired", "The upload address has expired."];
  }
  return ["upload_refused", unexpected];
}
