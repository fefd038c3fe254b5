/** Speaking and typing, and which characters take which. */
import type { Character } from "@voice-avatar/client";

/** Whether the visitor speaks or types. */
export type Mode = "speak" | "type";

const TAKEN: Readonly<Record<Mode, readonly Character["takes"][]>> = {
  speak: ["speech", "both"],
  type: ["text", "both"],
};

/** Whether a character takes what is spoken, or what is typed. */
export function takes(character: Character | null, mode: Mode): boolean {
  return TAKEN[mode].includes(character?.takes ?? "speech");
}
