/** Sends a recording over a WebSocket while it is being spoken: docs/live.md in the repository. */
import { type Answer, asObject, failure, parseResult, stringOr } from "./answers.js";
import type { Recording } from "./recording.js";
import type { HeardSound, LiveOffer, VoiceResult } from "./types.js";
import { aborted, forward, never } from "./waiting.js";

const PROTOCOL = "voice-avatar.live.v1";
/** The first connection, and one more that sends everything again. */
const CONNECTIONS = 2;
/** Recorders hand out very large slices after a pause of the device; the server takes 64 KiB. */
const MESSAGE_BYTES = 32 * 1024;
/** With more than this in the browser's queue, the network is too slow for a socket. */
const QUEUE_BYTES = 256 * 1024;
/** After the end of the speech, the wait for a service that has said nothing yet is short. */
const FIRST_WORD_SECONDS = 2;
/** So long without any progress ends the wait; the service speaks every 5 s. */
const STALL_SECONDS = 7;
/** Closed for a reason that a new connection would meet again: malformed, refused, too large, busy. */
const FINAL_CODES: ReadonlySet<number> = new Set([1007, 1008, 1009, 1013]);
/** A heard frame begins with the number of its first sample. */
const HEADER_BYTES = 4;

/** What comes over the socket before the result. */
export interface LiveListener {
  /** The service has the whole recording and answers for it. */
  readonly onTaken: () => void;
  /** The converted audio, before it is stored. */
  readonly onConverted: (audio: Blob) => void;
  /** The character's voice while the visitor speaks; undefined where nobody wants to hear it. */
  readonly onHeard: ((sound: HeardSound) => void) | undefined;
  /** The character will not be heard any more; the recording goes on. */
  readonly onHearingEnded: (reason: string) => void;
}

export interface LiveSurroundings {
  readonly openSocket: (url: string, protocol: string) => WebSocket;
  readonly pause: (seconds: number, signal: AbortSignal) => Promise<void>;
}

/** The result will not come over the socket. */
export class LiveEnded extends Error {
  /** Whether another connection may fare better. */
  readonly again: boolean;
  /** Whether the recording is stored all the same; otherwise it must be uploaded. */
  readonly stored: boolean;

  constructor(message: string, { again = false, stored = false } = {}) {
    super(message);
    this.again = again;
    this.stored = stored;
  }
}

/**
 * Sends the recording as it comes and resolves with the result.
 *
 * The connection is opened with the first slice, because the service waits only seconds for one.
 *
 * @throws LiveEnded if the result must be had in another way, VoiceAvatarError with the voice's
 *   own code if it failed, or whatever the recording or the signal rejects with.
 */
export async function sendLive(
  offer: LiveOffer,
  recording: Recording,
  contentType: string,
  listener: LiveListener,
  signal: AbortSignal,
  around: LiveSurroundings,
): Promise<VoiceResult> {
  const hear = listener.onHeard !== undefined;
  const start = { ticket: offer.ticket, content_type: contentType, hear };
  await Promise.race([recording.begun, aborted(signal)]);
  for (let connection = 1; ; connection += 1) {
    try {
      return await new Connection(offer.url, listener, around).run(recording, start, signal);
    } catch (error) {
      if (!(error instanceof LiveEnded) || !error.again || connection === CONNECTIONS) throw error;
    }
  }
}

/** One socket with one voice. */
class Connection {
  readonly #socket: WebSocket;
  readonly #listener: LiveListener;
  readonly #pause: LiveSurroundings["pause"];
  readonly #opened: Promise<void>;
  readonly #result: Promise<VoiceResult>;
  #succeed: (result: VoiceResult) => void = () => undefined;
  #fail: (reason: unknown) => void = () => undefined;
  /** The audio that was announced and has not come in full yet. */
  #coming: {
    readonly type: string;
    readonly bytes: number;
    readonly pieces: ArrayBuffer[];
  } | null = null;
  #messages = 0;

  constructor(url: string, listener: LiveListener, around: LiveSurroundings) {
    this.#listener = listener;
    this.#pause = around.pause;
    this.#socket = open(url, around);
    this.#result = new Promise((resolve, reject) => {
      this.#succeed = resolve;
      this.#fail = reject;
    });
    this.#opened = new Promise((resolve) => {
      this.#socket.onopen = () => resolve();
    });
    this.#socket.onmessage = ({ data }: MessageEvent<unknown>) => this.#receive(data);
    this.#socket.onclose = ({ code }) =>
      this.#fail(
        new LiveEnded(`The socket was closed with ${code}.`, { again: !FINAL_CODES.has(code) }),
      );
  }

  async run(recording: Recording, start: Answer, signal: AbortSignal): Promise<VoiceResult> {
    const scope = new AbortController();
    const stop = forward(signal, scope);
    try {
      return await Promise.race([
        this.#result,
        this.#send(recording, start, scope.signal).then(never),
        this.#stall(recording, scope.signal),
        aborted(scope.signal),
      ]);
    } finally {
      stop();
      scope.abort();
      this.#socket.close(1000);
    }
  }

  async #send(recording: Recording, start: Answer, signal: AbortSignal): Promise<void> {
    await this.#opened;
    this.#socket.send(JSON.stringify({ type: "start", ...start }));
    for await (const slice of recording.slices()) {
      const bytes = await slice.arrayBuffer();
      // The browser says that a socket closes a moment after nothing can be sent any more.
      if (signal.aborted || this.#socket.readyState !== this.#socket.OPEN) return;
      for (let from = 0; from < bytes.byteLength; from += MESSAGE_BYTES)
        this.#socket.send(bytes.slice(from, from + MESSAGE_BYTES));
      if (this.#socket.bufferedAmount > QUEUE_BYTES)
        throw new LiveEnded("The network is too slow for a socket.");
    }
    // A recording that nobody wants any more ends, too.
    if (signal.aborted) return;
    const whole = await (await recording.whole).arrayBuffer();
    const sha256 = hexadecimal(await crypto.subtle.digest("SHA-256", whole));
    this.#socket.send(JSON.stringify({ type: "end", bytes: whole.byteLength, sha256 }));
  }

  /** Rejects when nothing moves any more although the visitor has finished. */
  async #stall(recording: Recording, signal: AbortSignal): Promise<never> {
    await recording.whole;
    const isPatient = (idle: number): boolean =>
      idle < (this.#messages === 0 ? FIRST_WORD_SECONDS : STALL_SECONDS);
    for (let idle = 0, before = ""; isPatient(idle);) {
      await this.#pause(1, signal);
      const now = `${this.#messages} ${this.#socket.bufferedAmount}`;
      idle = now === before ? idle + 1 : 0;
      before = now;
    }
    throw new LiveEnded("The socket stands still.");
  }

  #receive(data: unknown): void {
    this.#messages += 1;
    try {
      if (data instanceof ArrayBuffer) this.#receiveSound(data);
      else this.#receiveMessage(asObject(JSON.parse(String(data)), "message"));
    } catch (error) {
      // An answer that cannot be read is as good as none.
      this.#fail(new LiveEnded(String(error)));
    }
  }

  #receiveSound(data: ArrayBuffer): void {
    if (this.#coming === null) {
      const firstSample = new DataView(data).getUint32(0, true);
      this.#listener.onHeard?.({ firstSample, samples: new Int16Array(data, HEADER_BYTES) });
      return;
    }
    const { type, bytes, pieces } = this.#coming;
    pieces.push(data);
    const audio = new Blob(pieces, { type });
    if (audio.size < bytes) return;
    this.#coming = null;
    this.#listener.onConverted(audio);
  }

  #receiveMessage(message: Answer): void {
    const { type, reason } = message;
    if (type === "converted" || type === "done" || type === "failed") this.#listener.onTaken();
    if (type === "converted") {
      const contentType = stringOr(message["content_type"], "audio/wav");
      this.#coming = { type: contentType, bytes: Number(message["bytes"]), pieces: [] };
    } else if (type === "done") {
      this.#succeed(parseResult(message));
    } else if (type === "retry") {
      const stored = message["stored"] === true;
      this.#fail(
        new LiveEnded(`No result here: ${String(reason)}.`, {
          stored,
          again: !stored && reason === "restarting",
        }),
      );
    } else if (type === "failed") {
      this.#fail(failure(message));
    } else if (type === "hearing_ended") {
      this.#listener.onHearingEnded(stringOr(reason, ""));
    }
  }
}

function open(url: string, around: LiveSurroundings): WebSocket {
  try {
    const socket = around.openSocket(url, PROTOCOL);
    socket.binaryType = "arraybuffer";
    return socket;
  } catch (error) {
    // Some browsers throw where the page's policy forbids the address.
    throw new LiveEnded(String(error));
  }
}

function hexadecimal(bytes: ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
