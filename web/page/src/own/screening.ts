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
/** A voice falls silent faster than this: by 20 dB at the end of the sentence. */
const ECHO_FRAMES = 30;
const ECHO_FROM_DB = 12;
const ECHO_TO_DB = 32;
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
    ["echo", hasEcho(levels, loud, floor)],
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

/** Whether the end of the sentence goes on sounding in the room. */
function hasEcho(levels: readonly number[], loud: number, floor: number): boolean {
  // A fall into noise does not tell.
  if (floor > loud - ECHO_TO_DB - 3) return false;
  const last = levels.reduce((at, level, index) => (level > loud - ECHO_FROM_DB ? index : at), 0);
  const silent = levels.findIndex((level, index) => index > last && level < loud - ECHO_TO_DB);
  return silent >= 0 && silent - last > ECHO_FRAMES;
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
