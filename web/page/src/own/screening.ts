/**
 * Says at once what is wrong with a sentence that an owner has read.
 *
 * The trainer screens every recording again, with better means; here it is cheap, and the owner can
 * still repeat the sentence.
 */

export type Fault =
  "nothing" | "quiet" | "clipped" | "noisy" | "echo" | "cut_off" | "incomplete" | "another_voice";

/** What was heard in a recording. */
export interface Heard {
  /** How long somebody speaks, short pauses included. */
  readonly seconds: number;
  /** Median pitch of the voice in Hz; null if none was found. */
  readonly pitch: number | null;
  readonly fault: Fault | null;
}

/** What a recording is compared with. */
export interface Expected {
  /** How long the sentence takes at an ordinary speed; null for a recording of anything. */
  readonly seconds: number | null;
  /** Median pitches of what the owner has read before. */
  readonly pitches: readonly number[];
  /** The largest sample that the microphone gave, before it was compressed; null if unknown. */
  readonly peak: number | null;
}

const FRAMES_PER_SECOND = 100;
/** Levels in dB relative to a full-scale sine. */
const SILENCE_DB = -50;
const QUIET_DB = -42;
const FULL_SCALE = 0.99;
const FLAT_SAMPLES = 3;
const FLAT_STEP = 1e-4;
const MOST_CLIPPED = 5e-4;
/** As the trainer's: by how much speech must be louder than the quietest moments. */
const LEAST_ABOVE_NOISE_DB = 18;
const SPEECH_BELOW_LOUD_DB = 30;
const SPEECH_ABOVE_NOISE_DB = 9;
const SHORTEST_SECONDS = 0.4;
const PAUSE_FRAMES = 30;
const EDGE_FRAMES = 6;
const CUT_BELOW_LOUD_DB = 14;
const LEAST_SAID = 0.55;
/** As the trainer's `tools/training/recordings/usable_speech.py`, which says what they mean. */
const FALL_FRAMES = 12;
const SLOWEST_FALL = -105;
const FASTEST_SHARE = 0.1;
const LEAST_FALLS = 20;
const FALL_ABOVE_FLOOR_DB = 20;
const END_ABOVE_FLOOR_DB = 6;
const LEAST_PITCHES = 3;
const OTHER_SEMITONES = 8;
const LOWEST_HZ = 60;
const HIGHEST_HZ = 450;
const PITCH_RATE = 8_000;
const PITCH_FRAME = 320;
/** Of the loudest frame's: quieter ones are consonants and the room. */
const LEAST_POWER = 0.03;
const LEAST_VOICED = 0.7;

/** Screens a recording; `samples` are mono between -1 and 1, at `rate` Hz. */
export function screen(samples: Float32Array, rate: number, expected: Expected): Heard {
  const levels = levelsOf(samples, rate);
  const loud = ranked(levels, 0.95);
  const floor = ranked(levels, 0.05);
  const threshold = Math.max(loud - SPEECH_BELOW_LOUD_DB, floor + SPEECH_ABOVE_NOISE_DB);
  const speech = spans(levels.map((level) => level > threshold));
  const seconds = speech.reduce((sum, [from, to]) => sum + to - from, 0) / FRAMES_PER_SECOND;
  const pitch = medianPitch(samples, rate);
  const isSilent = loud < SILENCE_DB || (seconds < SHORTEST_SECONDS && floor < SILENCE_DB);
  const faults: readonly (readonly [Fault, boolean])[] = [
    ["nothing", isSilent],
    ["quiet", loud < QUIET_DB],
    ["clipped", (expected.peak ?? 0) >= FULL_SCALE || isClipped(samples)],
    ["noisy", ranked(levels, 0.9) - floor < LEAST_ABOVE_NOISE_DB],
    ["cut_off", isCutOff(levels, loud, floor)],
    ["incomplete", expected.seconds !== null && seconds < LEAST_SAID * expected.seconds],
    ["another_voice", isOther(pitch, expected.pitches)],
    ["echo", hasEcho(samples, rate)],
  ];
  const fault = faults.find(([, isSo]) => isSo)?.[0] ?? null;
  return { seconds: isSilent ? 0 : seconds, pitch, fault };
}

/** Level of each hundredth of a second. */
function levelsOf(samples: Float32Array, rate: number): number[] {
  const size = Math.round(rate / FRAMES_PER_SECOND);
  return Array.from({ length: Math.floor(samples.length / size) }, (_, index) => {
    const frame = samples.subarray(index * size, (index + 1) * size);
    const power = frame.reduce((sum, sample) => sum + sample * sample, 0) / size;
    return 10 * Math.log10(2 * power + 1e-10);
  });
}

/** The value below which this share of the values lies. */
function ranked(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? -100;
}

/** First frame and frame after the last of each stretch of speech, short pauses included. */
function spans(isSpeech: readonly boolean[]): [number, number][] {
  const found: [number, number][] = [];
  isSpeech.forEach((is, index) => {
    const last = found.at(-1);
    if (!is) return;
    if (last !== undefined && index - last[1] <= PAUSE_FRAMES) last[1] = index + 1;
    else found.push([index, index + 1]);
  });
  return found;
}

/** Whether samples near the peak stand still, as they do after an overload. */
function isClipped(samples: Float32Array): boolean {
  const peak = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
  let flat = 0;
  let run = 0;
  for (let index = 1; index < samples.length; index += 1) {
    const [before = 0, now = 0] = samples.subarray(index - 1, index + 1);
    const stands = Math.abs(now) > 0.9 * peak && Math.abs(now - before) < FLAT_STEP * peak;
    run = stands ? run + 1 : 0;
    if (run >= FLAT_SAMPLES - 1) flat += 1;
  }
  return peak > 0.05 && flat > MOST_CLIPPED * samples.length;
}

/** Whether somebody speaks in the first or in the last moments. */
function isCutOff(levels: readonly number[], loud: number, floor: number): boolean {
  return [levels.slice(0, EDGE_FRAMES), levels.slice(-EDGE_FRAMES)].some((edge) => {
    const level = ranked(edge, 0.5);
    return level > loud - CUT_BELOW_LOUD_DB && level > floor + CUT_BELOW_LOUD_DB;
  });
}

/** Whether the room resounds: then no sound falls faster than the room lets it. */
function hasEcho(samples: Float32Array, rate: number): boolean {
  // Differences: what is low falls slowly in any voice.
  const levels = levelsOf(
    samples.map((sample, index) => sample - (samples[index - 1] ?? sample)),
    rate,
  );
  const floor = ranked(levels, 0.05);
  const least = Math.max(floor + FALL_ABOVE_FLOOR_DB, ranked(levels, 0.95) - SPEECH_BELOW_LOUD_DB);
  const falls = levels
    .map((_, at) => levels.slice(at, at + FALL_FRAMES))
    .filter(
      (fall) =>
        fall.length === FALL_FRAMES &&
        (fall[0] ?? 0) > least &&
        // What ends in the noise says how loud that is.
        (fall.at(-1) ?? 0) > floor + END_ABOVE_FLOOR_DB,
    )
    .map(slopeOf)
    .filter((slope) => slope < 0);
  return falls.length >= LEAST_FALLS && ranked(falls, FASTEST_SHARE) > SLOWEST_FALL;
}

/** The slope of levels, in dB a second. */
function slopeOf(levels: readonly number[]): number {
  const middle = (levels.length - 1) / 2;
  const products = levels.map((level, index) => level * (index - middle));
  const squares = levels.map((_, index) => (index - middle) ** 2);
  const sum = (values: readonly number[]): number => values.reduce((one, other) => one + other, 0);
  return (FRAMES_PER_SECOND * sum(products)) / sum(squares);
}

function isOther(pitch: number | null, pitches: readonly number[]): boolean {
  if (pitch === null || pitches.length < LEAST_PITCHES) return false;
  return Math.abs(12 * Math.log2(pitch / ranked(pitches, 0.5))) > OTHER_SEMITONES;
}

/** Median pitch of the voiced frames in Hz, by the autocorrelation of each. */
function medianPitch(samples: Float32Array, rate: number): number | null {
  const step = Math.max(1, Math.round(rate / PITCH_RATE));
  const slow = averaged(samples, step);
  const slowRate = rate / step;
  const frames: Float32Array[] = [];
  for (let at = 0; at + 2 * PITCH_FRAME <= slow.length; at += PITCH_FRAME)
    frames.push(slow.subarray(at, at + 2 * PITCH_FRAME));
  const least = LEAST_POWER * Math.max(...frames.map((frame) => power(frame, 0)), 1e-6);
  const pitches = frames
    .filter((frame) => power(frame, 0) >= least)
    .map((frame) => pitchOf(frame, slowRate))
    .filter((pitch) => pitch !== null);
  return pitches.length === 0 ? null : ranked(pitches, 0.5);
}

/** Every `step` samples become their mean, which also takes away most of what is too high. */
function averaged(samples: Float32Array, step: number): Float32Array {
  return Float32Array.from({ length: Math.floor(samples.length / step) }, (_, index) => {
    const piece = samples.subarray(index * step, (index + 1) * step);
    return piece.reduce((sum, sample) => sum + sample, 0) / step;
  });
}

/** Pitch of one frame, the second half of which is needed for the longest period. */
function pitchOf(frame: Float32Array, rate: number): number | null {
  const energy = power(frame, 0);
  const shortest = Math.floor(rate / HIGHEST_HZ);
  const longest = Math.min(PITCH_FRAME, Math.ceil(rate / LOWEST_HZ));
  const likeness: number[] = [];
  for (let lag = shortest; lag <= longest; lag += 1) {
    let sum = 0;
    for (let index = 0; index < PITCH_FRAME; index += 1)
      sum += (frame[index] ?? 0) * (frame[index + lag] ?? 0);
    likeness.push(sum / Math.sqrt(energy * power(frame, lag) + 1e-12));
  }
  const best = Math.max(...likeness);
  if (best < LEAST_VOICED) return null;
  // The first peak that is nearly the highest: multiples of the period fit as well.
  const first = likeness.findIndex(
    (each, index) => each > 0.9 * best && each >= (likeness[index + 1] ?? -1),
  );
  return rate / (shortest + first);
}

function power(frame: Float32Array, from: number): number {
  let sum = 0;
  for (let index = from; index < from + PITCH_FRAME; index += 1) sum += (frame[index] ?? 0) ** 2;
  return sum;
}
