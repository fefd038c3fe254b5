/** The portrait, whose mouth moves with what is heard and whose eyes blink. */
import type { Character, Feature } from "@voice-avatar/client";
import { initialOf } from "./characterList.js";
import { element, part } from "./elements.js";
import type { Sound } from "./sound.js";

/** Levels per second at which the mouth moves. */
const RATE = 30;
/** Quieter than this share of the loudest moment, the mouth is closed. */
const CLOSED = 0.3;
/** Samples that change their sign more often than this are hisses, at which a mouth stays narrow. */
const HISS_CROSSINGS_PER_SECOND = 5000;
/** What is quieter than this while somebody is heard live is a pause. */
const QUIETEST_SPEECH = 0.02;
/** What is left of the loudest moment, a sixtieth of a second later. */
const FORGETTING = 0.998;
const BLINK_EVERY_SECONDS = 3.7;
const BLINK_AT_SECONDS = 1.6;
const BLINK_SECONDS = 0.14;

/** The shape of a mouth. */
export interface Mouth {
  /** How far it is open, from 0, shut, to 1. */
  readonly open: number;
  /** Its width beside the usual one. */
  readonly wide: number;
}

export const SHUT: Mouth = { open: 0, wide: 1 };
/** Consonants that do not need the lips. */
const BETWEEN: Mouth = { open: 0.2, wide: 0.95 };
/** Lips at the vowels of Japanese: `a` is the most open, `i` the widest, `u` and `o` are narrow. */
const VOWELS: Readonly<Record<string, Mouth>> = {
  a: { open: 1, wide: 1 },
  e: { open: 0.6, wide: 1.1 },
  i: { open: 0.35, wide: 1.2 },
  o: { open: 0.7, wide: 0.75 },
  u: { open: 0.3, wide: 0.65 },
};
/** Quieter than this share of the loudest moment, nobody speaks. */
const PAUSE = 0.02;

export class Face {
  readonly #root = part("#face", HTMLElement);
  readonly #image = part("#face img", HTMLImageElement);
  readonly #initial = part("#face .initial", HTMLElement);
  readonly #stillness = window.matchMedia("(prefers-reduced-motion: reduce)");
  #shown = "";
  #mouth: HTMLElement | null = null;
  #movement: readonly Mouth[] = [];

  constructor() {
    this.#image.addEventListener("error", () => this.#leavePortrait());
  }

  /** Shows a character's portrait, or the initial of its name if there is none, or none comes. */
  show(character: Character | null, name: string): void {
    this.#root.hidden = character === null;
    if (character === null) return;
    this.#initial.textContent = initialOf(name);
    const { id, portraitUrl, face } = character;
    const shown = `${id} ${portraitUrl}`;
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#leavePortrait();
    if (portraitUrl === null) return;
    this.#image.src = portraitUrl;
    this.#image.hidden = false;
    this.#initial.hidden = true;
    if (face === null) return;
    this.#root.style.setProperty("--skin", face.skin);
    for (const eye of face.eyes) this.#add(eye, "eye");
    this.#mouth = this.#add(face.mouth, "mouth");
  }

  /** Learns how the mouth moves with a sound. */
  learn(sound: Sound): void {
    this.#movement = movement(sound);
    this.move(0);
  }

  /** Opens the mouth as at one moment of the sound, as a share of its length; 0 and 1 close it. */
  move(fraction: number): void {
    const index = Math.floor(fraction * this.#movement.length);
    const isHeard = fraction > 0 && fraction < 1;
    this.open(isHeard ? (this.#movement[index] ?? SHUT) : SHUT);
  }

  /** Opens the mouth; not for those who prefer less motion. */
  open(wanted: Mouth): void {
    const { open, wide } = this.#stillness.matches ? SHUT : wanted;
    this.#mouth?.style.setProperty("--open", open.toFixed(2));
    this.#mouth?.style.setProperty("--wide", wide.toFixed(2));
    this.#mouth?.classList.toggle("open", open > 0);
  }

  #leavePortrait(): void {
    this.#image.hidden = true;
    this.#image.removeAttribute("src");
    this.#initial.hidden = false;
    for (const feature of this.#root.querySelectorAll(".feature")) feature.remove();
    this.#mouth = null;
  }

  #add({ x, y, width }: Feature, name: string): HTMLElement {
    const made = element("span", `feature ${name}`);
    for (const [key, value] of Object.entries({ x, y, width }))
      made.style.setProperty(`--${key}`, String(value));
    this.#root.append(made);
    return made;
  }
}

/** How far the mouth is open at what is heard just now; what comes is not known yet. */
export class RunningMovement {
  #loudest = QUIETEST_SPEECH;

  /** Takes the samples of the last moment, at `rate` Hz. */
  next(samples: Float32Array, rate: number): Mouth {
    const level = levelOf(samples);
    this.#loudest = Math.max(level, this.#loudest * FORGETTING, QUIETEST_SPEECH);
    const hisses = (crossings(samples) * rate) / samples.length > HISS_CROSSINGS_PER_SECOND;
    return { open: openingAt(level / this.#loudest, hisses), wide: 1 };
  }
}

/** The mouth at each thirtieth of a second: by what is said, where that is known, or by the sound. */
export function movement({ samples, seconds, phones = [] }: Sound): Mouth[] {
  const count = Math.max(1, Math.round(seconds * RATE));
  const size = samples.length / count;
  const steps = Array.from({ length: count }, (_, index) =>
    samples.subarray(Math.floor(index * size), Math.floor((index + 1) * size)),
  );
  const levels = steps.map(levelOf);
  const loudest = Math.max(...levels, 1e-9);
  return steps.map((step, index) => {
    const share = (levels[index] ?? 0) / loudest;
    const phone = phones.filter(({ begin }) => begin <= index / RATE).at(-1)?.phone;
    // Phones do not tell where a pause begins.
    if (phone !== undefined) return share < PAUSE ? SHUT : shapeOf(phone);
    const hisses = crossings(step) * RATE > HISS_CROSSINGS_PER_SECOND;
    return { open: openingAt(share, hisses), wide: 1 };
  });
}

function shapeOf(phone: string): Mouth {
  // A capital vowel is whispered: the lips do the same.
  const vowel = VOWELS[phone.toLowerCase()];
  if (vowel !== undefined) return vowel;
  return /^([mbp]y?|cl)$/.test(phone) ? SHUT : BETWEEN;
}

/** Whether the eyes are closed at this moment of a video, in seconds: as often as on the page. */
export function blinks(seconds: number): boolean {
  const moment = seconds % BLINK_EVERY_SECONDS;
  return moment >= BLINK_AT_SECONDS && moment < BLINK_AT_SECONDS + BLINK_SECONDS;
}

/** Root mean square. */
function levelOf(samples: Float32Array): number {
  const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / (samples.length || 1);
  return Math.sqrt(power);
}

/** How far the mouth is open at a share of the loudest level. */
function openingAt(share: number, hisses: boolean): number {
  const opening = Math.max(0, (Math.sqrt(share) - CLOSED) / (1 - CLOSED));
  return hisses ? opening * 0.3 : opening;
}

/** How often the samples change their sign. */
function crossings(samples: Float32Array): number {
  let count = 0;
  for (let index = 1; index < samples.length; index += 1) {
    if ((samples[index] ?? 0) < 0 !== (samples[index - 1] ?? 0) < 0) count += 1;
  }
  return count;
}
