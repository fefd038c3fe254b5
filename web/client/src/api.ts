/** Requests to the HTTP API and to signed addresses. */
import { type Answer, asObject } from "./answers.js";
import { problem, VoiceAvatarError } from "./errors.js";
import type { Surroundings } from "./surroundings.js";
import type { VoiceAvatarConfig } from "./types.js";
import { within } from "./waiting.js";

export const CHARACTERS = "/api/v1/characters";

/** How long an answer of the API may take, with its body; a cold function needs seconds. */
const ANSWER_SECONDS = 30;

/** The HTTP API, as the visitor who is signed in. */
export class Api {
  /** Base address, without a trailing slash. */
  readonly address: string;
  readonly #token: () => Promise<string | null>;
  readonly #attest: (() => Promise<string>) | null;
  readonly #fetch: typeof fetch;
  readonly #origin: string | null;

  constructor(config: VoiceAvatarConfig, around: Surroundings) {
    this.address = config.api.replace(/\/+$/, "");
    this.#token = config.token ?? (() => Promise.resolve(null));
    this.#attest = attestation(config, around);
    this.#fetch = around.fetch;
    this.#origin = around.origin;
  }

  /** Returns the answer's JSON object; throws the problem that the API answers. */
  async json(
    method: string,
    path: string,
    options: {
      signal?: AbortSignal | undefined;
      body?: unknown;
      seconds?: number;
      headers?: Readonly<Record<string, string>>;
    } = {},
  ): Promise<Answer> {
    const { signal, body, seconds = ANSWER_SECONDS, headers = {} } = options;
    return await this.within(seconds, this.address, signal, async (limit) => {
      const sent: Sent =
        body === undefined ? {} : body instanceof Blob ? asFile(body) : asJson(body);
      const response = await this.request(method, path, {
        signal: limit,
        ...sent,
        headers: { ...sent.headers, ...headers },
      });
      if (!response.ok) throw await problem(response);
      return asObject(await response.json().catch(() => null), "body");
    });
  }

  /** Does something with an address; throws `network` if it takes longer than so many seconds. */
  async within<T>(
    seconds: number,
    url: string,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { host } = new URL(url, this.#origin ?? "https://relative.invalid");
    const late = (): Error =>
      new VoiceAvatarError("network", `${host} did not answer within ${seconds} seconds.`);
    return await within(seconds, signal, late, work);
  }

  /** Sends a request with the visitor's tokens. */
  async request(method: string, path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    const token = await this.#token();
    if (token !== null) headers.set("authorization", `Bearer ${token}`);
    // The API lists the characters without a token, so the page can show them before reCAPTCHA has loaded.
    if (this.#attest && !path.startsWith(CHARACTERS))
      headers.set("x-firebase-appcheck", await this.#attest());
    return await this.fetched(`${this.address}${path}`, { ...init, method, headers });
  }

  /** Fetches any address without cookies and tokens; without an answer it throws `network`. */
  async fetched(url: string, init: RequestInit): Promise<Response> {
    try {
      const anonymous = { credentials: "omit", referrerPolicy: "no-referrer" } as const;
      return await this.#fetch(url, { ...init, ...anonymous });
    } catch (cause) {
      init.signal?.throwIfAborted();
      throw new VoiceAvatarError("network", unreachable(url, this.#origin), { cause });
    }
  }
}

interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Blob;
}

function asJson(body: unknown): Sent {
  return { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

function asFile(body: Blob): Sent {
  const type = /^(audio|video)\//.test(body.type) ? body.type : "application/octet-stream";
  return { headers: { "content-type": type }, body };
}

/** To a script, a service that refuses its page looks like one that is not there. */
function unreachable(url: string, origin: string | null): string {
  const { host, origin: other } = new URL(url, origin ?? "https://relative.invalid");
  const refused = `, or does not allow pages of ${origin}: its setting ALLOWED_ORIGINS lists the sites`;
  return `${host} could not be reached${origin === null || other === origin ? "" : refused}.`;
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
