/** Files: those that the visitor brings, and the name of the one that the visitor takes away. */
import { part } from "./elements.js";

const ENDINGS: Readonly<Record<string, string>> = {
  "audio/mpeg": "mp3",
  "audio/mp4": "m4a",
  "audio/ogg": "ogg",
  "audio/wav": "wav",
};

/** Lets a file be dropped anywhere on the page, or chosen. */
export function acceptFiles(take: (file: File) => void): void {
  const veil = part("#drop", HTMLElement);
  const input = part("#file", HTMLInputElement);
  input.addEventListener("change", () => {
    const file = input.files?.[0];
    if (file !== undefined) take(file);
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
    const file = event.dataTransfer?.files[0];
    if (file !== undefined) take(file);
  });
}

/** The name under which a result is saved. */
export function fileName(character: string, contentType: string): string {
  const moment = new Date().toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
  return `${character}-${moment}.${ENDINGS[contentType.split(";")[0] ?? ""] ?? "audio"}`;
}
