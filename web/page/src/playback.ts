/** The page's two sounds: the visitor's own and the character's. */
import { part } from "./elements.js";
import { outline, Player, type Sound } from "./sound.js";
import type { Side } from "./state.js";
import { showPlayed } from "./view.js";
import { BARS, drawWaveform } from "./waveform.js";

export class Playback {
  readonly #players: Readonly<Record<Side, Player>>;
  #addresses: string[] = [];

  /** `onChange` gets the side, whether it plays, and how much of it has been played. */
  constructor(onChange: (side: Side, playing: boolean, fraction: number) => void) {
    const player = (side: Side): Player =>
      new Player((playing, fraction) => {
        showPlayed(side, fraction);
        onChange(side, playing, fraction);
      });
    this.#players = { own: player("own"), converted: player("converted") };
  }

  /** Makes a sound ready to be played and draws it; returns its address. */
  load(side: Side, sound: Sound): string {
    const address = URL.createObjectURL(sound.blob);
    this.#addresses.push(address);
    this.#players[side].load(address, sound.seconds);
    const direction = side === "own" ? "up" : "down";
    drawWaveform(part(`#${side} .wave`, SVGElement), outline(sound, BARS), direction);
    showPlayed(side, 1);
    return address;
  }

  /** Plays one side, which ends the other, or pauses it. */
  toggle(side: Side): void {
    const player = this.#players[side];
    if (player.playing) {
      player.pause();
      return;
    }
    this.#players[side === "own" ? "converted" : "own"].pause();
    // A browser may require another click before it plays; the play button is visible.
    player.play().catch(() => undefined);
  }

  pause(): void {
    for (const player of Object.values(this.#players)) player.pause();
  }

  clear(): void {
    for (const player of Object.values(this.#players)) player.clear();
    for (const address of this.#addresses.splice(0)) URL.revokeObjectURL(address);
  }
}
