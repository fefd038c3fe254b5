/** Writes a result as WAV: 16-bit PCM, with the statement that it is synthetic speech. */
import type { Character } from "@voice-avatar/client";
import type { Sound } from "./sound.js";

const HEADER_BYTES = 44;
const FULL_SCALE = 32_767;
/** IPTC's term for media made by a trained network (NewsCodes, Digital Source Type). */
const SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";

/** The statement about a result, as the service writes it into its own files. */
export interface Statement {
  readonly title: string;
  readonly artist: string;
  readonly comment: string;
}

/** What is stated of a character's conversion, or of a text that it spoke. */
export function statement({ name, credit, id }: Character, fromText: boolean): Statement {
  const artist = name["en"] ?? id;
  const made = fromText ? "spoken from text in" : "converted to";
  return {
    title: `Synthetic speech: ${artist}`,
    artist,
    comment: `Synthetic speech, ${made} the voice of ${artist}. ${credit}`.trim(),
  };
}

/** Writes one channel; the statement is in a LIST/INFO chunk before the samples. */
export function wavOf({ samples, seconds }: Sound, stated: Statement): Blob {
  const rate = Math.round(samples.length / seconds);
  const pcm = Int16Array.from(samples, (sample) =>
    Math.round(Math.min(1, Math.max(-1, sample)) * FULL_SCALE),
  );
  const info = infoChunk(stated);
  const header = new DataView(new ArrayBuffer(HEADER_BYTES - 8));
  write(header, 0, "RIFF");
  header.setUint32(4, HEADER_BYTES - 8 + info.length + pcm.byteLength, true);
  write(header, 8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, 1, true);
  header.setUint32(24, rate, true);
  header.setUint32(28, 2 * rate, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  const data = new DataView(new ArrayBuffer(8));
  write(data, 0, "data");
  data.setUint32(4, pcm.byteLength, true);
  return new Blob([header, info, data, pcm], { type: "audio/wav" });
}

function infoChunk({ title, artist, comment }: Statement): Uint8Array<ArrayBuffer> {
  const entries = [
    chunk("INAM", `${title}\0`),
    chunk("IART", `${artist}\0`),
    chunk("ICMT", `${comment}\0`),
    chunk("IKEY", `synthetic speech; ${SOURCE_TYPE}\0`),
  ];
  return chunk("LIST", joined([new TextEncoder().encode("INFO"), ...entries]));
}

/** A chunk of a RIFF file; its content is padded to an even length. */
function chunk(name: string, content: string | Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  const made = new Uint8Array(8 + bytes.length + (bytes.length % 2));
  const view = new DataView(made.buffer);
  write(view, 0, name);
  view.setUint32(4, bytes.length, true);
  made.set(bytes, 8);
  return made;
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const made = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    made.set(part, place);
    place += part.length;
  }
  return made;
}

function write(view: DataView, place: number, text: string): void {
  for (const [index, byte] of new TextEncoder().encode(text).entries())
    view.setUint8(place + index, byte);
}
