/** Lets the visitors hear themselves as the character while they speak. */
import type { HeardSound } from "@voice-avatar/client";
import worklet from "./hearingWorklet.js?worker&url";
import type { PostedSound } from "./hearingWorklet.js";

/** Of the sound that the service sends. */
const RATE = 24_000;
const FULL_SCALE = 32_768;
/** What is looked at of the sound at once: 43 ms. */
const MOMENT = 1024;

/** Plays the sound of one recording. Make it while a click is handled, otherwise it stays silent. */
export class Hearing {
  readonly #context = new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
  readonly #player: Promise<AudioWorkletNode | null>;
  readonly #analyser = new AnalyserNode(this.#context, { fftSize: MOMENT });
  readonly #moment = new Float32Array(MOMENT);
  readonly #onMoment: (samples: Float32Array, rate: number) => void;

  /** `onMoment` is given what is heard just now, with each picture that the browser draws. */
  constructor(onMoment: (samples: Float32Array, rate: number) => void) {
    this.#onMoment = onMoment;
    this.#player = this.#open().catch(() => null);
  }

  play({ firstSample, samples }: HeardSound): void {
    const posted: PostedSound = {
      firstSample,
      samples: Float32Array.from(samples, (sample) => sample / FULL_SCALE),
    };
    void this.#player.then((player) => player?.port.postMessage(posted));
  }

  /** Ends the sound; it does not matter what still comes. */
  stop(): void {
    if (this.#context.state !== "closed") void this.#context.close();
  }

  #look(): void {
    if (this.#context.state === "closed") return;
    this.#analyser.getFloatTimeDomainData(this.#moment);
    this.#onMoment(this.#moment, RATE);
    requestAnimationFrame(() => this.#look());
  }

  async #open(): Promise<AudioWorkletNode> {
    await this.#context.audioWorklet.addModule(worklet);
    const player = new AudioWorkletNode(this.#context, "voice-avatar-hearing", {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
    player.connect(this.#analyser).connect(this.#context.destination);
    this.#look();
    return player;
  }
}
