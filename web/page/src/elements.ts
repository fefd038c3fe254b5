/** Finds the parts of index.html; throws if one is missing. */

export function part<T extends Element>(
  selector: string,
  type: new () => T,
  root: ParentNode = document,
): T {
  const found = root.querySelector(selector);
  if (found instanceof type) return found;
  throw new Error(`The page has no ${type.name} at "${selector}".`);
}

/** Makes an element with a class and plain text, never markup. */
export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  className: string,
  text = "",
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}
