/** Files: those that the visitor brings, and the name of the one that the visitor takes away. */
import type { Character } from "@voice-avatar/client";
import { part } from "./elements.js";

const ENDINGS: Readonly<Record<string, string>> = {
  "audio/mpeg": "mp3",
  "audio/mp4": "m4a",
  "audio/ogg": "ogg",
  "audio/wav": "wav",
  "video/mp4": "mp4",
  "video/webm": "webm",
};

/** Lets files be dropped anywhere on the page, or chosen with an input; there is at least one. */
export function acceptFiles(
  input: HTMLInputElement,
  take: (files: readonly [File, ...File[]]) => void,
): void {
  const veil = part("#drop", HTMLElement);
  const takeAll = (files: FileList | null | undefined): void => {
    const [first, ...others] = files ?? [];
    if (first !== undefined) take([first, ...others]);
  };
  input.addEventListener("change", () => {
    takeAll(input.files);
    input.value = "";
  });
  const hasFile = (event: DragEvent): boolean =>
    event.dataTransfer?.types.includes("Files") ?? false;
  document.addEventListener("dragover", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    veil.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) veil.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    veil.hidden = true;
    takeAll(event.dataTransfer?.files);
  });
}

/** The name under which a result is saved: the character, and when it was made, in local time. */
export function fileName(
  character: Pick<Character, "name"> | null,
  contentType: string,
  at: Date,
): string {
  // Not the id: who knows that of somebody's own character may be able to speak with it.
  const name = (character?.name["en"] ?? "")
    .normalize("NFKC")
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}]+/gu, "-")
    .replaceAll(/^-|-$/g, "");
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join("");
  return `${name || "voice"}-${day}-${time}.${ENDINGS[contentType.split(";")[0] ?? ""] ?? "audio"}`;
}
