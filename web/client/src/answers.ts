/** Checks and reads the services' answers. */
import { VoiceAvatarError } from "./errors.js";
import type {
  AnnouncedVoice,
  Character,
  Face,
  Feature,
  LiveOffer,
  Phone,
  SignedUpload,
  TextAbility,
  Verification,
  Voice,
  VoiceResult,
  VoiceStatus,
  VoiceUpdate,
} from "./types.js";

/** A JSON object or a document, not checked yet. */
export type Answer = Readonly<Record<string, unknown>>;

/** Returns the state in a voice's document; throws the voice's own error if it has failed. */
export function readDocument(data: Answer | null): {
  update: VoiceUpdate;
  result: VoiceResult | null;
} {
  if (data === null)
    throw new VoiceAvatarError("unknown_voice", "The voice does not exist any more.");
  const status = asString(data["status"], "status") as VoiceStatus;
  if (status === "failed") throw failure(asObject(data["error"] ?? {}, "error"));
  const result = status === "done" ? parseResult(data) : null;
  return { update: { status, stage: stringOr(data["stage"], null) }, result };
}

/** The error that a failed voice names. */
export function failure(error: Answer): VoiceAvatarError {
  const message = stringOr(error["message"], "The conversion failed.");
  return new VoiceAvatarError(stringOr(error["code"], "internal"), message);
}

function parseLicence(value: unknown, api: string): Character["licence"] {
  if (typeof value === "string") return { name: value, url: null };
  const data = asObject(value ?? {}, "licence");
  return { name: stringOr(data["name"], ""), url: webAddress(data["url"], api) };
}

/** One entry of `GET /api/v1/characters`; its addresses may be relative to the API's. */
export function parseCharacter(entry: unknown, api: string): Character {
  const data = asObject(entry, "character");
  const limits = asObject(data["limits"] ?? {}, "limits");
  const { takes, text } = data;
  return {
    id: asString(data["id"], "id"),
    name: asObject(data["name"], "name") as Record<string, string>,
    description: asObject(data["description"] ?? {}, "description") as Record<string, string>,
    credit: stringOr(data["credit"], ""),
    credits: isObject(data["credits"]) ? (data["credits"] as Record<string, string>) : {},
    licence: parseLicence(data["licence"], api),
    termsUrl: webAddress(data["terms_url"], api),
    forbiddenUses: asArray(data["forbidden_uses"] ?? [], "forbidden_uses").map(String),
    colour: stringOr(data["colour"], null),
    portraitUrl: webAddress(data["portrait_url"], api),
    face: isObject(data["face"]) ? parseFace(data["face"]) : null,
    takes: takes === "text" || takes === "both" ? takes : "speech",
    text: isObject(text) ? parseTextAbility(text) : null,
    limits: {
      minSeconds: numberOr(limits["min_seconds"], 1),
      maxSeconds: numberOr(limits["max_seconds"], 10),
    },
  };
}

/** The answer of `POST /api/v1/verifications`. */
export function parseVerification(body: Answer): Verification {
  const said = asObject(body["credentials"], "credentials");
  const mark = asObject(body["watermark"], "watermark");
  return {
    verdict: asString(body["verdict"], "verdict") as Verification["verdict"],
    sentences: asObject(body["sentences"], "sentences") as Record<string, string>,
    credentials: {
      state: asString(said["state"], "state") as Verification["credentials"]["state"],
      madeWith: stringOr(said["made_with"], ""),
      character: stringOr(said["character"], ""),
      issuer: stringOr(said["issuer"], ""),
      signedAt: stringOr(said["signed_at"], ""),
      forbiddenUses: asArray(said["forbidden_uses"] ?? [], "forbidden_uses").map(String),
    },
    watermark: {
      state: asString(mark["state"], "state") as Verification["watermark"]["state"],
      bits: typeof mark["bits"] === "number" ? mark["bits"] : null,
      chance: typeof mark["chance"] === "number" ? mark["chance"] : null,
    },
  };
}

function parseFace(data: Answer): Face {
  return {
    mouth: parseFeature(data["mouth"]),
    eyes: asArray(data["eyes"] ?? [], "eyes").map(parseFeature),
    skin: stringOr(data["skin"], "#ffffff"),
  };
}

function parseFeature(value: unknown): Feature {
  const data = asObject(value, "feature");
  return {
    x: numberOr(data["x"], 0),
    y: numberOr(data["y"], 0),
    width: numberOr(data["width"], 0),
  };
}

function parseTextAbility(data: Answer): TextAbility {
  return {
    maxCharacters: numberOr(data["max_characters"], Number.POSITIVE_INFINITY),
    styles: asArray(data["styles"] ?? [], "styles").map((entry) => {
      const style = asObject(entry, "style");
      return {
        id: numberOr(style["id"], 0),
        name: stringOr(style["name"], ""),
        speaker: stringOr(style["speaker"], null),
      };
    }),
    languages: asArray(data["languages"] ?? [], "languages").filter(
      (entry): entry is string => typeof entry === "string",
    ),
  };
}

/** A voice without a place for a recording, such as one made from a text. */
export function parseAnnounced(body: Answer): AnnouncedVoice {
  const voiceId = asString(body["voice_id"], "voice_id");
  const unread = stringOr(body["unread"], "");
  return {
    voiceId,
    document: stringOr(body["document"], `voices/${voiceId}`),
    ...(unread === "" ? {} : { unread }),
  };
}

export function parseVoice(body: Answer): Voice {
  return {
    ...parseAnnounced(body),
    upload: parseUpload(asObject(body["upload"], "upload")),
    live: parseLive(body["live"]),
  };
}

export function parseUpload(upload: Answer): SignedUpload {
  return {
    method: stringOr(upload["method"], "PUT"),
    url: asString(upload["url"], "upload.url"),
    headers: asObject(upload["headers"] ?? {}, "upload.headers") as Record<string, string>,
    expiresAt: new Date(asString(upload["expires_at"], "upload.expires_at")),
    maxBytes: numberOr(upload["max_bytes"], Number.POSITIVE_INFINITY),
  };
}

/** An offer that cannot be understood is none: the upload works without it. */
function parseLive(offer: unknown): LiveOffer | null {
  if (!isObject(offer)) return null;
  const { url, ticket } = offer;
  if (typeof url !== "string" || typeof ticket !== "string") return null;
  return { url, ticket, expiresAt: moment(offer["expires_at"]) };
}

/** The result of a voice that is done, in its document or an answer about it. */
export function parseResult(done: Answer): VoiceResult {
  const result = asObject(done["result"], "result");
  const recording = done["input"];
  const damaged = isObject(recording) && recording["damaged"] === true;
  const phones = parsePhones(stringOr(result["phones"], ""));
  return {
    url: asString(result["url"], "result.url"),
    urlExpiresAt: moment(result["url_expires_at"]),
    contentType: stringOr(result["content_type"], "audio/wav"),
    bytes: numberOr(result["bytes"], null),
    seconds: numberOr(result["seconds"], null),
    sha256: stringOr(result["sha256"], null),
    ...(damaged ? { missingSeconds: numberOr(recording["missing_seconds"], 0) } : {}),
    ...(phones.length > 0 ? { phones } : {}),
  };
}

/** What cannot be understood is left out: nobody hears it. */
function parsePhones(text: string): Phone[] {
  return [...text.matchAll(/(?<= |^)([A-Za-z]+):(\d+)(?= |$)/g)].map(([, phone = "", begin]) => ({
    phone,
    begin: Number(begin) / 1000,
  }));
}

/** A Firestore timestamp or an ISO 8601 text. */
function moment(value: unknown): Date | null {
  if (typeof value === "string") return new Date(value);
  if (isObject(value) && "toDate" in value) return (value as { toDate: () => Date }).toDate();
  return null;
}

/** Accepts only http and https; relative addresses are relative to the API's. */
function webAddress(value: unknown, base: string): string | null {
  if (typeof value !== "string" || !URL.canParse(value, `${base}/`)) return null;
  const url = new URL(value, `${base}/`);
  return /^https?:$/.test(url.protocol) ? url.href : null;
}

export function isObject(value: unknown): value is Answer {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function asObject(value: unknown, what: string): Answer {
  if (isObject(value)) return value;
  throw new VoiceAvatarError("bad_response", `The answer has no object "${what}".`);
}

export function asArray(value: unknown, what: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new VoiceAvatarError("bad_response", `The answer has no list "${what}".`);
}

export function asString(value: unknown, what: string): string {
  if (typeof value === "string") return value;
  throw new VoiceAvatarError("bad_response", `The answer has no text "${what}".`);
}

export function stringOr<T>(value: unknown, otherwise: T): string | T {
  return typeof value === "string" ? value : otherwise;
}

function numberOr<T>(value: unknown, otherwise: T): number | T {
  return typeof value === "number" && Number.isFinite(value) ? value : otherwise;
}
