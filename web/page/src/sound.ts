/** Decodes, checks and plays the audio that the page holds, and determines its type. */
import type { Phone } from "@voice-avatar/client";
import { PageError } from "./problems.js";

/** The service accepts this much more than its limit, because encoders add some samples. */
const TOLERANCE_SECONDS = 0.5;
/** Quieter than any whisper into a working microphone: -50 dBFS at the loudest. */
const SILENT_PEAK = 0.0032;
/** Only the service decodes larger files: decoding them here would fill the visitor's memory. */
const DECODABLE_BYTES = 30_000_000;

export interface Sound {
  readonly blob: Blob;
  readonly seconds: number;
  readonly samples: Float32Array;
  /** Whether the samples are the sound's; otherwise they only fill its picture. */
  readonly isDecoded: boolean;
  /** Seconds that are missing because the recording was damaged; 0 if nobody knows how many. */
  readonly missingSeconds?: number;
  /** What is said in it, where that is known. */
  readonly phones?: readonly Phone[];
}

/** The decoded audio, or null if this browser cannot decode it: then the service checks it. */
export async function decode(blob: Blob): Promise<Sound | null> {
  if (blob.size === 0 || blob.size > DECODABLE_BYTES) return null;
  try {
    const context = new OfflineAudioContext(1, 1, 24_000);
    const buffer = await context.decodeAudioData(await blob.arrayBuffer());
    return { blob, seconds: buffer.duration, samples: buffer.getChannelData(0), isDecoded: true };
  } catch {
    return null;
  }
}

/** What decides whether a recording is accepted. */
export interface Measured {
  readonly seconds: number;
  /** The largest absolute sample, between 0 and 1; null if nobody listened. */
  readonly peak: number | null;
}

export function measure({ seconds, samples }: Sound): Measured {
  return { seconds, peak: samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0) };
}

/** Refuses, before it is converted, what the service would refuse. */
export function judge(
  { seconds, peak }: Measured,
  limits: { readonly minSeconds: number; readonly maxSeconds: number },
): void {
  if (seconds < limits.minSeconds) throw new PageError("too_short");
  if (seconds > limits.maxSeconds + TOLERANCE_SECONDS) throw new PageError("too_long");
  if (peak !== null && peak < SILENT_PEAK) throw new PageError("silent");
}

/** Loudness of `count` equal pieces, from 0 to 1; the loudest has 1. */
export function outline(sound: Sound, count: number): number[] {
  const size = sound.samples.length / count;
  const levels = Array.from({ length: count }, (_, index) => {
    const piece = sound.samples.subarray(Math.floor(index * size), Math.floor((index + 1) * size));
    return Math.sqrt(piece.reduce((sum, sample) => sum + sample * sample, 0) / (piece.length || 1));
  });
  const loudest = Math.max(...levels, 1e-9);
  return levels.map((level) => Math.sqrt(level / loudest));
}

const TYPES_BY_ENDING: Readonly<Record<string, string>> = {
  aac: "audio/aac",
  flac: "audio/flac",
  m4a: "audio/mp4",
  mp3: "audio/mpeg",
  mp4: "audio/mp4",
  oga: "audio/ogg",
  ogg: "audio/ogg",
  opus: "audio/ogg",
  wav: "audio/wav",
  weba: "audio/webm",
  webm: "audio/webm",
};

/** The file's media type, by its extension first: systems name audio types differently. */
export function contentTypeOf(file: File): string {
  const ending = file.name.split(".").pop()?.toLowerCase() ?? "";
  return TYPES_BY_ENDING[ending] ?? (file.type || "application/octet-stream");
}

/** Plays one sound and reports how much of it has been played. */
export class Player {
  readonly #audio = new Audio();
  readonly #onChange: (playing: boolean, fraction: number) => void;
  #seconds = 1;
  #frame = 0;

  constructor(onChange: (playing: boolean, fraction: number) => void) {
    this.#onChange = onChange;
    this.#audio.addEventListener("play", () => this.#tick());
    this.#audio.addEventListener("pause", () => this.#tell());
    this.#audio.addEventListener("ended", () => this.#onChange(false, 1));
  }

  get playing(): boolean {
    return !this.#audio.paused && !this.#audio.ended;
  }

  /** Sets another sound and its length, which WebM recordings do not contain. */
  load(address: string, seconds: number): void {
    this.#audio.src = address;
    this.#seconds = seconds;
  }

  async play(): Promise<void> {
    await this.#audio.play();
  }

  pause(): void {
    this.#audio.pause();
  }

  clear(): void {
    this.#audio.pause();
    this.#audio.removeAttribute("src");
    cancelAnimationFrame(this.#frame);
  }

  #tick(): void {
    cancelAnimationFrame(this.#frame);
    this.#tell();
    if (this.playing) this.#frame = requestAnimationFrame(() => this.#tick());
  }

  #tell(): void {
    if (this.#audio.ended) return;
    this.#onChange(this.playing, Math.min(1, this.#audio.currentTime / this.#seconds));
  }
}
