/**
 * Puts sound that comes in pieces, and not in time, into one stream without clicks.
 *
 * It waits until enough has come, plays, and fades out where a piece is missing. So that the sound
 * does not grow older and older, what has been waiting for too long is left out.
 */

/** The service sends pieces of 0.12 s: playing starts 0.06 s after the first one, or with the second. */
const START_SECONDS = 0.18;
/** With more than this in store, what is too old is left out. */
const MOST_SECONDS = 0.4;
/** Length of a fade. */
const FADE_SECONDS = 0.005;

interface Piece {
  readonly first: number;
  readonly samples: Float32Array;
}

export class JitterBuffer {
  readonly #start: number;
  readonly #most: number;
  readonly #step: number;
  /** In order, and none before the next sample. */
  #pieces: Piece[] = [];
  /** Number of the next sample, null before the first piece. */
  #next: number | null = null;
  /** Where playing goes on once the sound has faded out. */
  #leap: number | null = null;
  #isPlaying = false;
  /** So many samples passed while something was in store and did not play. */
  #waited = 0;
  #gain = 0;
  #last = 0;

  /** `rate`: samples per second. */
  constructor(rate: number) {
    this.#start = START_SECONDS * rate;
    this.#most = MOST_SECONDS * rate;
    this.#step = 1 / (FADE_SECONDS * rate);
  }

  /** Takes a piece; what has been played already, or is there already, is dropped. */
  push(first: number, samples: Float32Array): void {
    this.#next ??= first;
    const from = Math.max(this.#next, this.#end);
    if (first + samples.length <= from) return;
    this.#pieces.push(
      first >= from ? { first, samples } : { first: from, samples: samples.subarray(from - first) },
    );
    if (this.#end - this.#next > this.#most) this.#leap = Math.floor(this.#end - this.#start);
  }

  /** Fills `output` with the next samples, or with silence. */
  read(output: Float32Array): void {
    if (!this.#isPlaying) this.#wait(output.length);
    for (let index = 0; index < output.length; index += 1) {
      if (this.#leap !== null && this.#gain === 0) this.#skipTo(this.#leap);
      const sample = this.#isPlaying && this.#leap === null ? this.#take() : null;
      this.#gain = Math.min(1, Math.max(0, this.#gain + (sample === null ? -1 : 1) * this.#step));
      if (sample !== null) this.#last = sample;
      output[index] = this.#last * this.#gain;
    }
  }

  #wait(samples: number): void {
    const stored = this.#end - (this.#next ?? 0);
    this.#isPlaying = stored > 0 && stored + this.#waited >= this.#start;
    this.#waited = this.#isPlaying || stored === 0 ? 0 : this.#waited + samples;
  }

  /** The number after the last sample in store. */
  get #end(): number {
    const last = this.#pieces.at(-1);
    return last === undefined ? (this.#next ?? 0) : last.first + last.samples.length;
  }

  /** The next sample; null where it is missing. */
  #take(): number | null {
    const piece = this.#pieces[0];
    if (piece === undefined || this.#next === null) {
      this.#isPlaying = false;
      return null;
    }
    const sample = this.#next < piece.first ? null : (piece.samples[this.#next - piece.first] ?? 0);
    this.#next += 1;
    if (this.#next >= piece.first + piece.samples.length) this.#pieces.shift();
    return sample;
  }

  #skipTo(next: number): void {
    this.#leap = null;
    this.#next = next;
    this.#pieces = this.#pieces.filter(({ first, samples }) => first + samples.length > next);
  }
}
