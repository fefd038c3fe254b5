/** Recordings, whole or still being spoken. */
import { VoiceAvatarError } from "./errors.js";

/** A recording: whole, promised, or in slices that come while the visitor still speaks. */
export type RecordingSource = Blob | Promise<Blob> | ReadableStream<Blob> | AsyncIterable<Blob>;

/** Short enough for hearing the character meanwhile; recorders hand out whole packets of about 60 ms. */
const SLICE_MILLISECONDS = 100;
const LAST_DATA_MILLISECONDS = 250;

/**
 * Starts a recorder and returns its slices, for `convert`. The recording ends with
 * `recorder.stop()`.
 */
export function record(recorder: MediaRecorder): ReadableStream<Blob> {
  let over = false;
  let hasLast = false;
  return new ReadableStream<Blob>({
    start(slices) {
      const end = (close: () => void): void => {
        if (!over) close();
        over = true;
      };
      recorder.addEventListener("dataavailable", ({ data }) => {
        if (!over) slices.enqueue(data);
        hasLast ||= recorder.state === "inactive";
      });
      recorder.addEventListener("stop", () => {
        // Some browsers hand the last data out after this event.
        const wait = hasLast ? 0 : LAST_DATA_MILLISECONDS;
        setTimeout(() => end(() => slices.close()), wait);
      });
      recorder.addEventListener("error", (event) => {
        end(() => slices.error(event));
        release(recorder);
      });
      recorder.start(SLICE_MILLISECONDS);
    },
    // Nobody wants the recording any more.
    cancel() {
      over = true;
      release(recorder);
    },
  });
}

/** Stops a recorder and turns its microphone off. */
function release(recorder: MediaRecorder): void {
  if (recorder.state !== "inactive") recorder.stop();
  for (const track of recorder.stream.getTracks()) track.stop();
}

/** Reads a source once and keeps every byte, so that the recording can be sent again. */
export class Recording {
  /** The whole recording; rejects if there will be none. */
  readonly whole: Promise<Blob>;
  /** Resolves with the first slice, or at the end. */
  readonly begun: Promise<unknown>;
  /** Whether it comes in slices. */
  readonly sliced: boolean;
  readonly #slices: Blob[] = [];
  #ended = false;
  #grew: Promise<void> = Promise.resolve();
  #tell: () => void = () => undefined;
  #stop: () => Promise<unknown> = () => Promise.resolve();

  constructor(source: RecordingSource, contentType: string) {
    this.sliced = isStream(source);
    this.#wait();
    const grew = this.#grew;
    const read = isStream(source) ? this.#read(source, contentType) : Promise.resolve(source);
    this.whole = read.then(requireBytes);
    this.begun = Promise.race([grew, this.whole]);
    this.begun.catch(() => undefined);
  }

  /** Ends a recording that nobody wants any more; a recorder's microphone is turned off. */
  cancel(): void {
    void this.#stop().catch(() => undefined);
  }

  /** The slices from the first one on; it can be called again, and waits for those to come. */
  async *slices(): AsyncGenerator<Blob, void> {
    for (let sent = 0; ;) {
      const slice = this.#slices[sent];
      if (slice !== undefined) {
        sent += 1;
        yield slice;
      } else if (this.#ended) return;
      else await Promise.race([this.#grew, this.whole]);
    }
  }

  async #read(
    source: ReadableStream<Blob> | AsyncIterable<Blob>,
    contentType: string,
  ): Promise<Blob> {
    const reader = "getReader" in source ? source.getReader() : null;
    const iterator = reader === null ? iterate(source) : chunks(reader);
    this.#stop = async () =>
      await (reader === null ? iterator.return?.(undefined) : reader.cancel());
    for await (const slice of { [Symbol.asyncIterator]: () => iterator }) {
      if (slice.size === 0) continue;
      this.#slices.push(slice);
      this.#tell();
      this.#wait();
    }
    this.#ended = true;
    return new Blob(this.#slices, { type: contentType });
  }

  #wait(): void {
    this.#grew = new Promise((resolve) => {
      this.#tell = resolve;
    });
  }
}

function isStream(source: RecordingSource): source is ReadableStream<Blob> | AsyncIterable<Blob> {
  return "getReader" in source || Symbol.asyncIterator in source;
}

function requireBytes(whole: Blob): Blob {
  if (whole.size > 0) return whole;
  throw new VoiceAvatarError("no_audio", "The recording is empty: it has no bytes.");
}

function iterate(source: ReadableStream<Blob> | AsyncIterable<Blob>): AsyncIterator<Blob> {
  return (source as AsyncIterable<Blob>)[Symbol.asyncIterator]();
}

/** Not every browser can iterate over a stream itself. */
async function* chunks(reader: ReadableStreamDefaultReader<Blob>): AsyncGenerator<Blob, void> {
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
