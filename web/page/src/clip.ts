/** Makes a video of a result: the portrait that speaks, both waveforms, name and credit. */
import type { Character } from "@voice-avatar/client";
import { initialOf } from "./characterList.js";
import { blinks, type Mouth, movement, SHUT } from "./face.js";
import { outline, type Sound } from "./sound.js";
import { BARS } from "./waveform.js";

/** Width and height in pixels. */
export const SHAPES = { square: [1080, 1080], tall: [1080, 1920] } as const;
export type Shape = keyof typeof SHAPES;

/** What a clip shows and lets hear. */
export interface Clip {
  readonly character: Character;
  readonly name: string;
  readonly credit: string;
  /** Says that the voice is synthetic. */
  readonly notice: string;
  /** The text that is spoken; empty where the visitor has spoken. */
  readonly caption: string;
  readonly own: Sound | null;
  readonly converted: Sound;
}

const FRAMES_PER_SECOND = 30;
const TYPES = [
  // H.264 of a level that has room for 1080 x 1920, and AAC: what phones and networks take.
  "video/mp4;codecs=avc1.640028,mp4a.40.2",
  "video/mp4;codecs=avc1.42E028,mp4a.40.2",
  "video/mp4",
  "video/webm;codecs=vp9,opus",
  "video/webm;codecs=vp8,opus",
  "video/webm",
] as const;
const PICTURE_BITS = 3_000_000;
const SOUND_BITS = 160_000;
/** The picture stands still so long before and after the sound. */
const EDGE_SECONDS = 0.3;
const PORTRAIT_SECONDS = 10;
const PAPER = "#fefafb";
const INK = "#1f1a1c";
const SOFT = "#5d5458";
const ACCENT = "#c2366b";
const MOUTH = "#7d2338";
const LASHES = "rgb(0 0 0 / 0.55)";
/** Places and sizes in pixels from the top; widths of lines in Latin letters, others count twice. */
const LAYOUTS = {
  square: {
    face: { top: 50, size: 460 },
    name: { at: 600, size: 72 },
    caption: { at: 660, size: 38, letters: 50, lines: 2 },
    waves: { at: 850, longest: 84 },
    notice: { at: 984, size: 34 },
    credit: { at: 1026, size: 24, letters: 84 },
  },
  tall: {
    face: { top: 130, size: 860 },
    name: { at: 1130, size: 110 },
    caption: { at: 1230, size: 56, letters: 34, lines: 3 },
    waves: { at: 1560, longest: 130 },
    notice: { at: 1766, size: 40 },
    credit: { at: 1822, size: 28, letters: 72 },
  },
} as const;
const CREDIT_LINES = 2;
/** Height of a line, in its size. */
const LEADING = 1.25;
const TYPEFACE = '"Bricolage Grotesque Variable", system-ui, sans-serif';

/** The best type in which this browser records videos, or null if it records none. */
function clipType(): string | null {
  if (typeof MediaRecorder === "undefined" || !("captureStream" in HTMLCanvasElement.prototype))
    return null;
  return TYPES.find((type) => MediaRecorder.isTypeSupported(type)) ?? null;
}

/** Records a clip, which takes as long as its sound. */
export async function recordClip(clip: Clip, shape: Shape): Promise<Blob> {
  const type = clipType();
  if (type === null) throw new Error("This browser records no videos.");
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = SHAPES[shape];
  const picture = new Picture(canvas, clip, shape, await portraitOf(clip.character));
  picture.draw(0);
  const context = new AudioContext();
  try {
    // Made while the click is still handled in most browsers; otherwise it starts suspended.
    await context.resume();
    const sound = context.createMediaStreamDestination();
    const tracks = [
      ...canvas.captureStream(FRAMES_PER_SECOND).getVideoTracks(),
      ...sound.stream.getAudioTracks(),
    ];
    const recorder = new MediaRecorder(new MediaStream(tracks), {
      mimeType: type,
      videoBitsPerSecond: PICTURE_BITS,
      audioBitsPerSecond: SOUND_BITS,
    });
    const parts: Blob[] = [];
    recorder.ondataavailable = ({ data }) => parts.push(data);
    const ended = new Promise<void>((resolve, reject) => {
      recorder.onstop = () => resolve();
      recorder.onerror = () => reject(new Error("The video was not recorded."));
    });
    recorder.start();
    const source = sourceOf(clip.converted, context);
    source.connect(sound);
    const begin = context.currentTime + EDGE_SECONDS;
    source.start(begin);
    await playThrough(context, begin, clip.converted.seconds, (share) => picture.draw(share));
    recorder.stop();
    await ended;
    return new Blob(parts, { type: type.split(";")[0] ?? type });
  } finally {
    await context.close();
  }
}

/** Draws until the sound has ended. A hidden page draws no frames, so a timer counts. */
function playThrough(
  context: AudioContext,
  begin: number,
  seconds: number,
  draw: (share: number) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      const share = (context.currentTime - begin) / seconds;
      draw(Math.min(1, Math.max(0, share)));
      if (share * seconds < seconds + EDGE_SECONDS) return;
      clearInterval(timer);
      resolve();
    }, 1000 / FRAMES_PER_SECOND);
  });
}

function sourceOf({ samples, seconds }: Sound, context: AudioContext): AudioBufferSourceNode {
  const buffer = context.createBuffer(1, samples.length, Math.round(samples.length / seconds));
  buffer.getChannelData(0).set(samples);
  const source = context.createBufferSource();
  source.buffer = buffer;
  return source;
}

/** The portrait as a picture that may be drawn, or null if it has none or it does not come. */
async function portraitOf({ portraitUrl }: Character): Promise<HTMLImageElement | null> {
  if (portraitUrl === null) return null;
  const image = new Image();
  // Otherwise nobody may record a canvas with a picture of another site.
  image.crossOrigin = "anonymous";
  const loaded = new Promise<HTMLImageElement | null>((resolve) => {
    image.onload = () => resolve(image);
    image.onerror = () => resolve(null);
    setTimeout(() => resolve(null), PORTRAIT_SECONDS * 1000);
  });
  image.src = portraitUrl;
  return await loaded;
}

/** The picture at one moment of the sound. */
class Picture {
  readonly #clip: Clip;
  readonly #portrait: HTMLImageElement | null;
  readonly #context: CanvasRenderingContext2D;
  readonly #movement: readonly Mouth[];
  readonly #levels: { readonly own: readonly number[]; readonly converted: readonly number[] };
  readonly #layout: (typeof LAYOUTS)[Shape];

  constructor(
    canvas: HTMLCanvasElement,
    clip: Clip,
    shape: Shape,
    portrait: HTMLImageElement | null,
  ) {
    const context = canvas.getContext("2d");
    if (context === null) throw new Error("This browser draws no pictures.");
    this.#context = context;
    this.#clip = clip;
    this.#layout = LAYOUTS[shape];
    this.#portrait = portrait;
    this.#movement = movement(clip.converted);
    this.#levels = {
      own: clip.own === null ? [] : outline(clip.own, BARS),
      converted: outline(clip.converted, BARS),
    };
  }

  draw(share: number): void {
    const { canvas } = this.#context;
    const { width, height } = canvas;
    this.#context.fillStyle = PAPER;
    this.#context.fillRect(0, 0, width, height);
    const { face, name, caption, waves, notice, credit } = this.#layout;
    this.#drawFace((width - face.size) / 2, face.top, face.size, share);
    this.#write(this.#clip.name, name.at, name.size, INK, 700);
    this.#writeLines(spokenAt(lines(this.#clip.caption, caption.letters), caption.lines, share), {
      ...caption,
      colour: INK,
    });
    this.#drawWaves(waves.at, waves.longest, share);
    this.#write(this.#clip.notice, notice.at, notice.size, INK, 600);
    this.#writeLines(shortened(lines(this.#clip.credit, credit.letters), CREDIT_LINES), {
      ...credit,
      colour: SOFT,
    });
  }

  #writeLines(
    written: readonly string[],
    { at, size, colour }: { at: number; size: number; colour: string },
  ): void {
    written.forEach((line, index) =>
      this.#write(line, at + index * size * LEADING, size, colour, 400),
    );
  }

  get #accent(): string {
    return this.#clip.character.colour ?? ACCENT;
  }

  #drawFace(x: number, y: number, size: number, share: number): void {
    const context = this.#context;
    context.save();
    context.beginPath();
    context.arc(x + size / 2, y + size / 2, size / 2, 0, 2 * Math.PI);
    context.clip();
    context.fillStyle = this.#accent;
    context.fillRect(x, y, size, size);
    if (this.#portrait !== null) {
      context.drawImage(this.#portrait, x, y, size, size);
      this.#drawEyes(x, y, size, share);
      this.#drawMouth(x, y, size, share);
    }
    context.restore();
    if (this.#portrait === null)
      this.#write(initialOf(this.#clip.name), y + size * 0.66, size * 0.5, "#fff", 700);
  }

  #drawEyes(left: number, top: number, size: number, share: number): void {
    const { face } = this.#clip.character;
    const isStill = share <= 0 || share >= 1;
    if (face === null || isStill || !blinks(share * this.#clip.converted.seconds)) return;
    const context = this.#context;
    for (const eye of face.eyes) {
      const [x, y] = [left + eye.x * size, top + eye.y * size];
      const radius = (eye.width * size) / 2;
      context.fillStyle = face.skin;
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.fill();
      context.strokeStyle = LASHES;
      context.lineWidth = radius * 0.28;
      context.beginPath();
      context.arc(x, y, radius * 0.86, 0.15 * Math.PI, 0.85 * Math.PI);
      context.stroke();
    }
  }

  #drawMouth(left: number, top: number, size: number, share: number): void {
    const { face } = this.#clip.character;
    const index = Math.floor(share * this.#movement.length);
    const { open, wide } = share <= 0 || share >= 1 ? SHUT : (this.#movement[index] ?? SHUT);
    if (face === null || open <= 0) return;
    const context = this.#context;
    const [x, y] = [left + face.mouth.x * size, top + face.mouth.y * size];
    const width = face.mouth.width * size;
    // The drawn mouth is covered while it is open.
    context.fillStyle = face.skin;
    context.beginPath();
    context.ellipse(x, y, width * 0.72, width * 0.48, 0, 0, 2 * Math.PI);
    context.fill();
    context.fillStyle = MOUTH;
    context.beginPath();
    const tall = width * 0.48 * (0.12 + 0.88 * open);
    context.ellipse(x, y, width * 0.42 * wide, tall, 0, 0, 2 * Math.PI);
    context.fill();
  }

  /** The visitor's bars stand on the axis, the character's hang from it. */
  #drawWaves(axis: number, longest: number, share: number): void {
    const context = this.#context;
    const [left, step] = [100, 10];
    context.lineWidth = 5;
    context.lineCap = "round";
    const sides = [
      [this.#levels.own, -1, INK],
      [this.#levels.converted, 1, this.#accent],
    ] as const;
    for (const [levels, direction, colour] of sides) {
      context.strokeStyle = colour;
      levels.forEach((level, index) => {
        context.globalAlpha = index / levels.length <= share ? 1 : 0.28;
        context.beginPath();
        const from = axis + direction * 5;
        context.moveTo(left + index * step, from);
        context.lineTo(left + index * step, from + direction * Math.max(1, level * longest));
        context.stroke();
      });
    }
    context.globalAlpha = 1;
  }

  #write(text: string, y: number, size: number, colour: string, weight: number): void {
    const context = this.#context;
    context.font = `${weight} ${size}px ${TYPEFACE}`;
    context.fillStyle = colour;
    context.textAlign = "center";
    context.fillText(text, context.canvas.width / 2, y, context.canvas.width - 120);
  }
}

/** A text in lines of at most this width, in Latin letters; words stay whole. */
export function lines(text: string, width: number): string[] {
  const found: string[] = [];
  let line = "";
  // Japanese may be parted anywhere.
  for (const part of text.match(/[\u2e80-\uffff]|[^\s\u2e80-\uffff]+|\s+/g) ?? []) {
    if (widthOf(line + part.trimEnd()) > width) {
      found.push(line.trim());
      line = "";
    }
    line += part;
  }
  return [...found, line.trim()].filter((each) => each !== "");
}

/** Returns the lines, of which so many are shown at once, that are spoken at this share of a sound. */
export function spokenAt(all: readonly string[], most: number, share: number): readonly string[] {
  const pages = Math.ceil(all.length / most);
  const page = Math.min(Math.floor(share * pages), pages - 1);
  return all.slice(page * most, (page + 1) * most);
}

/** Returns the first lines; an ellipsis says that there are more. */
export function shortened(all: readonly string[], most: number): readonly string[] {
  if (all.length <= most) return all;
  return [...all.slice(0, most - 1), `${all[most - 1] ?? ""} …`];
}

function widthOf(text: string): number {
  return Array.from(text).reduce((sum, letter) => sum + (letter > "\u2e80" ? 2 : 1), 0);
}
