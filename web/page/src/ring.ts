/** The ring around the button: level meter and countdown, then the recording, then its progress. */

const SVG = "http://www.w3.org/2000/svg";
const INNER_RADIUS = 146;
const OUTER_RADIUS = 194;

export const TICKS = 96;

/** Each tick has a length (`--level`) and a tone: idle, the visitor's, or the character's. */
export class Ring {
  readonly #root: HTMLElement;
  readonly #ticks: readonly SVGElement[];

  constructor(root: HTMLElement) {
    this.#root = root;
    const svg = root.querySelector("svg") as SVGElement;
    this.#ticks = Array.from({ length: TICKS }, (_, index) => tick(index));
    svg.replaceChildren(...this.#ticks);
  }

  clear(): void {
    this.draw(Array.from({ length: TICKS }, () => 0));
    this.#tone(() => "idle");
    this.pulse(0);
  }

  /** Shows the level at one moment of a recording that may last `maxSeconds`. */
  meter(level: number, seconds: number, maxSeconds: number): void {
    const index = Math.min(TICKS - 1, Math.floor((seconds / maxSeconds) * TICKS));
    for (const passed of this.#ticks.slice(0, index + 1)) {
      // Where no frame was drawn in time, the next level replaces the missing one.
      if (passed.dataset["tone"] === "you") continue;
      passed.dataset["tone"] = "you";
      passed.style.setProperty("--level", String(level));
    }
    const now = this.#ticks[index];
    const loudest = Number(now?.style.getPropertyValue("--level"));
    now?.style.setProperty("--level", String(Math.max(level, loudest)));
    this.pulse(level);
  }

  /** Shows the current level in the button's halo. */
  pulse(level: number): void {
    this.#root.style.setProperty("--pulse", level.toFixed(3));
  }

  /** A whole recording around the ring: `TICKS` levels between 0 and 1. */
  draw(levels: readonly number[]): void {
    this.#ticks.forEach((line, index) => {
      line.style.setProperty("--level", (levels[index] ?? 0).toFixed(3));
    });
  }

  /** The first part belongs to the character, the rest to the visitor. */
  turn(fraction: number): void {
    const edge = Math.round(fraction * TICKS);
    this.#tone((index) => (index < edge ? "them" : "you"));
  }

  /** Marks what has been played; 1 shows everything. */
  played(fraction: number): void {
    const edge = Math.round(fraction * TICKS);
    this.#ticks.forEach((line, index) => {
      line.classList.toggle("ahead", index >= edge);
    });
  }

  #tone(of: (index: number) => "idle" | "you" | "them"): void {
    this.#ticks.forEach((line, index) => {
      line.dataset["tone"] = of(index);
      line.classList.remove("ahead");
    });
  }
}

function tick(index: number): SVGElement {
  const line = document.createElementNS(SVG, "line");
  const place = {
    x1: "200",
    x2: "200",
    y1: String(200 - INNER_RADIUS),
    y2: String(200 - OUTER_RADIUS),
    pathLength: "1",
    transform: `rotate(${(360 * index) / TICKS} 200 200)`,
  };
  for (const [name, value] of Object.entries(place)) line.setAttribute(name, value);
  line.dataset["tone"] = "idle";
  line.style.setProperty("--turn", String(index / TICKS));
  return line;
}
