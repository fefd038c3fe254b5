/** The microphone: one recording with a level meter, in the best format this browser can write. */
import { PageError } from "./problems.js";
import type { Measured } from "./sound.js";

/** Opus first: the smallest at the same quality, and most browsers record it. */
const TYPES = [
  "audio/webm;codecs=opus",
  "audio/ogg;codecs=opus",
  "audio/mp4;codecs=opus",
  "audio/mp4;codecs=mp4a.40.2",
  "audio/mp4",
  "audio/webm",
] as const;

/** What is spoken after the last slice comes when the recorder stops, so short slices win nothing. */
const SLICE_MILLISECONDS = 250;
/** For visitors who hear themselves: every packet at once. Chromium's packets last 60 ms. */
const SHORT_SLICE_MILLISECONDS = 20;
/** The recorder stops this much early, because encoders finish their current frame. */
const MARGIN_SECONDS = 0.15;
/** What is said in a longer time than this without a look at the meter may be missed by it. */
const GAP_MILLISECONDS = 400;
const METER_FLOOR_DB = -54;
const METER_TOP_DB = -8;

export interface RecorderOptions {
  readonly contentType: string;
  readonly maxSeconds: number;
  /** Whether the visitor hears the character meanwhile, so that every packet is handed out at once. */
  readonly isHeard: boolean;
  /** Whether the browser leaves noise and level as they are; a voice is learnt from that. */
  readonly isRaw?: boolean;
  readonly signal: AbortSignal;
  readonly onStart: () => void;
  /** Level between 0 and 1, and seconds since the start; about once per frame. */
  readonly onLevel: (level: number, seconds: number) => void;
}

/** A recording, measured while it was made. */
export interface Recorded extends Measured {
  readonly blob: Blob;
}

/** The best type to record in, or null where the browser cannot record at all. */
export function recordingType(): string | null {
  if (typeof MediaRecorder === "undefined") return null;
  return TYPES.find((type) => MediaRecorder.isTypeSupported(type)) ?? null;
}

/** Records until `stop` is called or the maximum time is over. */
export class Recorder {
  /** The recording's bytes as they come; ends and fails as `finished` does. */
  readonly slices: ReadableStream<Blob>;
  /** The whole recording; rejects with a `PageError`, or with the signal's reason. */
  readonly finished: Promise<Recorded>;
  #slices!: ReadableStreamDefaultController<Blob>;
  #stop: () => void = () => undefined;
  /** Whether the client still takes the slices; the visitor may go on speaking without it. */
  #isWanted = true;

  constructor(options: RecorderOptions) {
    this.slices = new ReadableStream({
      start: (slices) => void (this.#slices = slices),
      cancel: () => void (this.#isWanted = false),
    });
    // Created while the click is still handled: otherwise some browsers start it suspended.
    const context = new AudioContext();
    this.finished = this.#record(context, options).finally(() => void context.close());
    this.finished.then(
      () => this.#isWanted && this.#slices.close(),
      (reason: unknown) => this.#isWanted && this.#slices.error(reason),
    );
  }

  /** Ends the recording; does nothing before it has begun. */
  stop(): void {
    this.#stop();
  }

  async #record(context: AudioContext, options: RecorderOptions): Promise<Recorded> {
    const stream = await openMicrophone(options.isRaw ?? false);
    try {
      options.signal.throwIfAborted();
      const recorder = new MediaRecorder(stream, {
        mimeType: options.contentType,
        audioBitsPerSecond: 64_000,
      });
      this.#stop = () => {
        if (recorder.state !== "inactive") recorder.stop();
      };
      return await this.#run(recorder, new Meter(context, stream), options);
    } finally {
      for (const track of stream.getTracks()) track.stop();
    }
  }

  async #run(recorder: MediaRecorder, meter: Meter, options: RecorderOptions): Promise<Recorded> {
    const parts: Blob[] = [];
    let frame = 0;
    let timer = 0;
    let seconds = 0;
    const cancel = (): void => this.stop();
    options.signal.addEventListener("abort", cancel, { once: true });
    try {
      await new Promise<void>((resolve, reject) => {
        recorder.ondataavailable = ({ data }) => {
          parts.push(data);
          if (this.#isWanted) this.#slices.enqueue(data);
        };
        recorder.onerror = (event) => reject(new PageError("microphone_busy", event));
        recorder.onstop = () => resolve();
        recorder.onstart = () => {
          const began = performance.now();
          recorder.onstop = () => {
            seconds = (performance.now() - began) / 1000;
            resolve();
          };
          const tick = (): void => {
            options.onLevel(meter.level(), (performance.now() - began) / 1000);
            frame = requestAnimationFrame(tick);
          };
          // A hidden page draws no frames, so a timer ends the recording.
          timer = window.setTimeout(cancel, (options.maxSeconds - MARGIN_SECONDS) * 1000);
          options.onStart();
          tick();
        };
        recorder.start(options.isHeard ? SHORT_SLICE_MILLISECONDS : SLICE_MILLISECONDS);
      });
    } finally {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      options.signal.removeEventListener("abort", cancel);
    }
    options.signal.throwIfAborted();
    return { blob: new Blob(parts, { type: options.contentType }), seconds, peak: meter.peak };
  }
}

async function openMicrophone(isRaw: boolean): Promise<MediaStream> {
  if (!window.isSecureContext) throw new PageError("insecure");
  try {
    return await navigator.mediaDevices.getUserMedia({
      audio: {
        channelCount: 1,
        echoCancellation: false,
        autoGainControl: !isRaw,
        noiseSuppression: !isRaw,
      },
    });
  } catch (error) {
    throw new PageError(microphoneProblem(error), error);
  }
}

function microphoneProblem(
  error: unknown,
): "microphone_refused" | "no_microphone" | "microphone_busy" {
  const name = error instanceof DOMException ? error.name : "";
  if (name === "NotAllowedError" || name === "SecurityError") return "microphone_refused";
  if (name === "NotFoundError" || name === "OverconstrainedError") return "no_microphone";
  return "microphone_busy";
}

/** Listens to the microphone as often as it is asked. */
class Meter {
  readonly #analyser: AnalyserNode;
  readonly #samples: Float32Array<ArrayBuffer>;
  #loudest = 0;
  #asked: number | null = null;
  #hasGap = false;

  constructor(context: AudioContext, stream: MediaStream) {
    this.#analyser = context.createAnalyser();
    this.#analyser.fftSize = 1024;
    this.#samples = new Float32Array(this.#analyser.fftSize);
    context.createMediaStreamSource(stream).connect(this.#analyser);
  }

  /** The largest absolute sample so far; null if nobody asked for a while, as in a hidden page. */
  get peak(): number | null {
    this.#noteTime();
    return this.#hasGap ? null : this.#loudest;
  }

  /** The level now, between 0 and 1. */
  level(): number {
    this.#noteTime();
    this.#analyser.getFloatTimeDomainData(this.#samples);
    let power = 0;
    for (const sample of this.#samples) {
      power += sample * sample;
      this.#loudest = Math.max(this.#loudest, Math.abs(sample));
    }
    const decibels = 10 * Math.log10(power / this.#samples.length + 1e-12);
    return Math.min(1, Math.max(0, (decibels - METER_FLOOR_DB) / (METER_TOP_DB - METER_FLOOR_DB)));
  }

  #noteTime(): void {
    const now = performance.now();
    this.#hasGap ||= now - (this.#asked ?? now) > GAP_MILLISECONDS;
    this.#asked = now;
  }
}
