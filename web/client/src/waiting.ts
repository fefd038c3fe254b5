/** Waits for several things at once, and stops waiting. */

/** Aborts `target` when `source` aborts; returns a function that ends this. */
export function forward(source: AbortSignal | undefined, target: AbortController): () => void {
  if (source === undefined) return () => undefined;
  const abort = (): void => target.abort(source.reason);
  if (source.aborted) abort();
  source.addEventListener("abort", abort, { once: true });
  return () => source.removeEventListener("abort", abort);
}

/** Rejects with the signal's reason when it aborts, and never resolves. */
export function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/**
 * Does something that `late` ends after so many seconds, because a connection may die without a word.
 *
 * @param work gets a signal that aborts when `signal` does, or when the time is over.
 */
export async function within<T>(
  seconds: number,
  signal: AbortSignal | undefined,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = new AbortController();
  const stop = forward(signal, limit);
  const timer = setTimeout(() => limit.abort(late()), seconds * 1000);
  try {
    return await Promise.race([work(limit.signal), aborted(limit.signal)]);
  } finally {
    clearTimeout(timer);
    stop();
  }
}

/** Never resolves and never rejects. */
export function never(): Promise<never> {
  return new Promise(() => undefined);
}

/** Resolves after that many seconds; rejects with the signal's reason. */
export function pause(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, seconds * 1000);
    signal.addEventListener("abort", abort, { once: true });
  });
}
