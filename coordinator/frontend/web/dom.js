// Makes elements. Text only ever becomes text nodes: nothing here parses HTML.

// make("button", {class: "icon", onclick: f, "aria-label": "Copy"}, "text", node, null, [more])
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

// One of the symbols in index.html.
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

// A button that shows an icon alone.
export function iconButton(name, label, onclick, attributes = {}) {
  return make("button", {type: "button", class: "icon small", "aria-label": label, title: label, onclick, ...attributes},
              icon(name));
}

export const byId = (id) => document.getElementById(id);

// Says something to people who do not see the page.
export function announce(text) {
  byId("announcer").textContent = text;
}

let toastTimer = 0;

// A sentence for some seconds, with a button if there is something to do.
export function toast(text, action = null) {
  const box = byId("toast");
  const button = action === null ? null : make("button", {type: "button", class: "link", onclick: () => {
    box.hidden = true;
    action.run();
  }}, action.label);
  box.replaceChildren(make("span", {}, text), ...(button === null ? [] : [button]));
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { box.hidden = true; }, action === null ? 4000 : 8000);
}

// Copies and says so.
export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    toast("The browser did not allow copying. Select the text and copy it by hand.");
    return;
  }
  announce("Copied");
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1200);
}
