/** One half of the mirrored comparison: bars that stand on the axis or hang from it. */

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 56;
const STEP = 5;

export const BARS = 88;

/** Draws `levels` between 0 and 1 into `svg`; the axis is below (`up`) or above (`down`). */
export function drawWaveform(
  svg: SVGElement,
  levels: readonly number[],
  direction: "up" | "down",
): void {
  const line = levels
    .map((level, index) => {
      const x = (index + 0.5) * STEP;
      const length = Math.max(1.5, level * (HEIGHT - 4));
      return direction === "up" ? `M${x} ${HEIGHT}v${-length}` : `M${x} 0v${length}`;
    })
    .join("");
  svg.setAttribute("viewBox", `0 0 ${levels.length * STEP} ${HEIGHT}`);
  svg.replaceChildren(path(line, "rest"), path(line, "played"));
}

function path(line: string, name: string): SVGElement {
  const element = document.createElementNS(SVG, "path");
  element.setAttribute("d", line);
  element.setAttribute("class", name);
  return element;
}
