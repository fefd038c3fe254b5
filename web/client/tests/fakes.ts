/** Stand-ins for the client's surroundings, which a test controls and which record requests. */
import type { Listen } from "../src/voiceAvatar.js";

export const VOICE_ID = "0b4c1d5e-6a7f-4c8d-9e0f-1a2b3c4d5e6f";
export const FIREBASE = { projectId: "project", apiKey: "key" };

export const CREATED = {
  voice_id: VOICE_ID,
  upload: {
    method: "PUT",
    url: "https://storage.example/upload",
    headers: { "Content-Type": "audio/webm;codecs=opus" },
    expires_at: "2999-01-01T00:00:00Z",
    max_bytes: 1000,
  },
  document: `voices/${VOICE_ID}`,
};

export const RESULT = {
  url: "https://storage.example/result?signature=1",
  url_expires_at: "2999-01-01T00:00:00Z",
  content_type: "audio/mpeg",
  bytes: 3,
  seconds: 1.5,
  sha256: "ab",
};

export const DONE = { voice_id: VOICE_ID, status: "done", result: RESULT, timings: {} };

type Answer = Response | Error | ((request: Request) => Promise<Response> | Response);

export function json(
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): Response {
  return new Response(JSON.stringify(body), { status, headers });
}

/** Answers each "METHOD path" with its answers in turn; the last one is repeated. */
export class FakeNetwork {
  readonly requests: Request[] = [];
  readonly #answers: Map<string, Answer[]>;

  constructor(answers: Record<string, Answer | Answer[]>) {
    this.#answers = new Map(Object.entries(answers).map(([route, each]) => [route, [each].flat()]));
  }

  asked(route: string): Request[] {
    return this.requests.filter((request) => routeOf(request) === route);
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    request.signal.throwIfAborted();
    this.requests.push(request.clone());
    const answers = this.#answers.get(routeOf(request));
    if (answers === undefined) throw new Error(`Nobody expects ${routeOf(request)}`);
    const answer = (answers.length > 1 ? answers.shift() : answers[0]) as Answer;
    if (answer instanceof Error) throw answer;
    return answer instanceof Response ? answer.clone() : await answer(request);
  };
}

function routeOf(request: Request): string {
  return `${request.method} ${new URL(request.url).pathname}`;
}

/** A document that the test writes. */
export class FakeFirestore {
  subscriptions = 0;
  #onDocument: ((data: Readonly<Record<string, unknown>> | null) => void) | null = null;
  #onError: ((error: unknown) => void) | null = null;
  readonly listened: Promise<string>;
  #heard: (path: string) => void = () => undefined;

  constructor() {
    this.listened = new Promise((resolve) => {
      this.#heard = resolve;
    });
  }

  readonly load = async (): Promise<Listen> => (path, onDocument, onError) => {
    this.subscriptions += 1;
    this.#onDocument = onDocument;
    this.#onError = onError;
    this.#heard(path);
    return () => {
      this.subscriptions -= 1;
    };
  };

  write(...documents: readonly (Readonly<Record<string, unknown>> | null)[]): void {
    for (const data of documents) this.#onDocument?.(data);
  }

  fail(error: unknown): void {
    this.#onError?.(error);
  }
}

/** A clock that the test advances. */
export class FakeClock {
  readonly pauses: number[] = [];
  readonly #passes: (seconds: number) => boolean;

  constructor(passes: (seconds: number) => boolean = () => false) {
    this.#passes = passes;
  }

  readonly pause = (seconds: number, signal: AbortSignal): Promise<void> => {
    this.pauses.push(seconds);
    if (this.#passes(seconds)) return Promise.resolve();
    return new Promise((_, reject) => {
      if (signal.aborted) reject(signal.reason);
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
  };
}

/** One connection of a {@link FakeLive}, which the test plays the server of. */
export class FakeSocket {
  binaryType = "blob";
  bufferedAmount = 0;
  readonly OPEN = 1;
  readonly CLOSING = 2;
  readyState: number = this.OPEN;
  readonly sent: (Record<string, unknown> | Blob)[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  closedByClient = false;

  send(data: string | ArrayBuffer): void {
    const isText = typeof data === "string";
    this.sent.push(isText ? (JSON.parse(data) as Record<string, unknown>) : new Blob([data]));
  }

  close(): void {
    this.closedByClient = true;
  }

  answer(message: Record<string, unknown> | ArrayBuffer | string): void {
    const plain = typeof message === "string" || message instanceof ArrayBuffer;
    this.onmessage?.({ data: plain ? message : JSON.stringify(message) });
  }

  break(code = 1006): void {
    this.onclose?.({ code });
  }

  /** The messages that are objects, by type. */
  get types(): unknown[] {
    return this.sent.flatMap((each) => (each instanceof Blob ? [] : [each["type"]]));
  }

  /** All bytes that came, as text. */
  async text(): Promise<string> {
    return await new Blob(this.sent.filter((each) => each instanceof Blob)).text();
  }
}

/** The service that takes sockets; it accepts each at once. */
export class FakeLive {
  readonly sockets: FakeSocket[] = [];
  readonly opened: string[][] = [];
  /** Called with each new socket. */
  accept: (socket: FakeSocket) => void = (socket) => socket.onopen?.();

  readonly openSocket = (...address: [string, string]): WebSocket => {
    const socket = new FakeSocket();
    this.opened.push(address);
    this.sockets.push(socket);
    queueMicrotask(() => this.accept(socket));
    return socket as unknown as WebSocket;
  };
}

/** Waits until something holds. */
export async function until(holds: () => boolean): Promise<void> {
  for (let turn = 0; turn < 1000; turn += 1) {
    if (holds()) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error("It never came to hold");
}
