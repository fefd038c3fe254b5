/** Waits in line while the service is crowded, instead of giving up. */
import { VoiceAvatarError } from "./errors.js";
import type { Surroundings } from "./surroundings.js";

/** So long one call waits in line in all. */
const LINE_SECONDS = 120;
/** Without a `Retry-After` the first wait is this long, and each further one twice as long. */
const FIRST_SECONDS = 1;
const LONGEST_SECONDS = 30;
/** Later by up to this share than the service asked for, so that those who were sent away together do not come back together. */
const JITTER = 0.5;
/** Answers of a service that has too much to do. */
const CROWDED: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** One visitor's place in line; all requests of one call share it. */
export class Line {
  readonly #around: Pick<Surroundings, "pause" | "random">;
  readonly #tell: (seconds: number) => void;
  #left = LINE_SECONDS;
  #turns = 0;

  /** `tell` is called with the seconds until the next try. */
  constructor(
    around: Pick<Surroundings, "pause" | "random">,
    tell: (seconds: number) => void = () => undefined,
  ) {
    this.#around = around;
    this.#tell = tell;
  }

  /** Asks until there is an answer, an error that waiting does not cure, or no patience left. */
  async through<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        signal.throwIfAborted();
        const seconds = this.#pauseAfter(error);
        if (seconds === null) throw error;
        this.#tell(seconds);
        await this.#around.pause(seconds, signal);
      }
    }
  }

  /** The seconds until the next try; null if there is none. */
  #pauseAfter(error: unknown): number | null {
    if (!(error instanceof VoiceAvatarError) || !CROWDED.has(error.status ?? 0)) return null;
    const backoff = Math.min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** this.#turns);
    const least = Math.max(error.retryAfter ?? backoff, FIRST_SECONDS);
    if (least > this.#left) return null;
    const seconds = Math.min(this.#left, least * (1 + JITTER * this.#around.random()));
    this.#left -= seconds;
    this.#turns += 1;
    return seconds;
  }
}
