/** Runs in the audio thread: plays what the page posts to it. */
import { JitterBuffer } from "./jitterBuffer.js";

// TypeScript has no library for the scope of audio worklets.
declare const sampleRate: number;
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;

/** A piece of sound, posted by the page. */
export interface PostedSound {
  readonly firstSample: number;
  readonly samples: Float32Array;
}

class Hearing extends AudioWorkletProcessor {
  readonly #buffer = new JitterBuffer(sampleRate);

  constructor() {
    super();
    this.port.onmessage = ({ data }: MessageEvent<PostedSound>) =>
      this.#buffer.push(data.firstSample, data.samples);
  }

  process(_: Float32Array[][], [output]: Float32Array[][]): boolean {
    const [channel] = output ?? [];
    if (channel !== undefined) this.#buffer.read(channel);
    return true;
  }
}

registerProcessor("voice-avatar-hearing", Hearing);
