/** Recordings, whole or still being spoken. */

/** A recording: whole, promised, or in slices that come while the visitor still speaks. */
export type RecordingSource = Blob | Promise<Blob> | ReadableStream<Blob> | AsyncIterable<Blob>;

/** Short enough for hearing the character meanwhile; recorders hand out whole packets of about 60 ms. */
const SLICE_MILLISECONDS = 100;

/**
 * Starts a recorder and returns its slices, for `convert`. The recording ends with
 * `recorder.stop()`.
 */
export function record(recorder: MediaRecorder): ReadableStream<Blob> {
  return new ReadableStream<Blob>({
    start(slices) {
      recorder.addEventListener("dataavailable", ({ data }) => slices.enqueue(data));
      recorder.addEventListener("stop", () => slices.close());
      recorder.addEventListener("error", (event) => slices.error(event));
      recorder.start(SLICE_MILLISECONDS);
    },
  });
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

  constructor(source: RecordingSource, contentType: string) {
    this.sliced = isStream(source);
    this.#wait();
    const grew = this.#grew;
    this.whole = isStream(source) ? this.#read(source, contentType) : Promise.resolve(source);
    this.begun = Promise.race([grew, this.whole]);
    this.begun.catch(() => undefined);
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
    for await (const slice of "getReader" in source ? chunks(source) : source) {
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

/** Not every browser can iterate over a stream itself. */
async function* chunks(stream: ReadableStream<Blob>): AsyncGenerator<Blob, void> {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
