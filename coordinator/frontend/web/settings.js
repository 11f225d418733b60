// The settings dialog.
import {byId, icon, iconButton, make} from "./dom.js";
import {bytes} from "./format.js";
import {DEFAULT_SETTINGS, loadSettings, saveSettings, storageUse} from "./store.js";

const THINKING = [["", "As the server is set"], ["none", "Off"], ["low", "Low"], ["high", "High"], ["max", "Max"]];

function field(label, note, input) {
  const id = input.id;
  const described = note === null ? null : make("p", {class: "note", id: `${id}-note`}, note);
  if (described !== null) input.setAttribute("aria-describedby", `${id}-note`);
  return make("div", {class: "field"}, make("label", {for: id}, label), input, described);
}

function slider(id, label, note, value, max, step) {
  const number = make("output", {for: id}, String(value));
  const range = make("input", {id, type: "range", min: "0", max: String(max), step: String(step), value: String(value)});
  range.value = String(value);
  range.addEventListener("input", () => { number.textContent = range.value; });
  const row = field(label, note, range);
  row.querySelector("label").append(number);
  return row;
}

function numberField(id, label, note, value, max) {
  const input = make("input", {id, type: "number", min: "0", max: String(max), step: "1", inputmode: "numeric",
                               placeholder: "random", value: String(value)});
  return field(label, note, input);
}

function thinkingField(value) {
  const options = THINKING.map(([effort, label]) => make("option", {value: effort, selected: effort === value}, label));
  return field("Thinking", "How long the model may reason before it answers. Shown folded above the answer.",
               make("select", {id: "set-thinking"}, options));
}

function systemField(value) {
  const area = make("textarea", {id: "set-system", rows: "4", placeholder: "You are …"});
  area.value = value;
  return field("System prompt", "Comes before every conversation; applies from the next message on.", area);
}

function keyField(value) {
  const input = make("input", {id: "set-key", type: "password", autocomplete: "off", placeholder: "none"});
  input.value = value;
  return field("API key", "Only where the server was started with one. It stays in this browser.", input);
}

function form(settings) {
  return [
    systemField(settings.system),
    thinkingField(settings.thinking),
    slider("set-temperature", "Temperature", "0 takes the likeliest word every time: the same question gives the same answer.",
           settings.temperature, 2, 0.05),
    slider("set-top-p", "Top p", "Below 1: only the likeliest words that make up this much are drawn.", settings.topP, 1, 0.01),
    make("div", {class: "pair"},
         numberField("set-seed", "Seed", "Empty: another one for each answer.", settings.seed, 2147483647),
         numberField("set-max-tokens", "Max tokens", "Of one answer, thinking included.", settings.maxTokens, 1048576)),
    keyField(settings.apiKey),
  ];
}

function bounded(id, low, high, fallback) {
  const value = Number(byId(id).value);
  return Number.isFinite(value) ? Math.min(Math.max(value, low), high) : fallback;
}

function read(before) {
  const seed = byId("set-seed").value.trim();
  return {
    ...before,
    system: byId("set-system").value,
    thinking: byId("set-thinking").value,
    temperature: bounded("set-temperature", 0, 2, DEFAULT_SETTINGS.temperature),
    topP: Math.max(bounded("set-top-p", 0, 1, DEFAULT_SETTINGS.topP), 0.01),
    seed: seed === "" ? "" : String(Math.trunc(bounded("set-seed", 0, 2147483647, 0))),
    maxTokens: Math.trunc(bounded("set-max-tokens", 1, 1048576, DEFAULT_SETTINGS.maxTokens)) || DEFAULT_SETTINGS.maxTokens,
    apiKey: byId("set-key").value.trim(),
  };
}

// Opens it; what is changed holds when it is closed, by whatever way.
export function openSettings(onChange) {
  const dialog = byId("settings");
  if (dialog.open) return;
  const use = make("p", {class: "note", id: "storage"});
  storageUse().then((storage) => {
    if (storage !== null) use.textContent = `Conversations use ${bytes(storage.used)} of ${bytes(storage.quota)} that this browser gives.`;
  });
  const reset = make("button", {type: "button", class: "plain-button", onclick: () => {
    fields.replaceChildren(...form({...DEFAULT_SETTINGS, apiKey: byId("set-key").value}));
  }}, icon("again"), "Defaults");
  const fields = make("div", {class: "fields"}, form(loadSettings()));
  dialog.replaceChildren(make("form", {method: "dialog"},
    make("header", {}, make("h2", {id: "settings-title", tabindex: "-1", autofocus: true}, "Settings"),
         iconButton("close", "Close", () => dialog.close())),
    fields, use,
    make("footer", {}, reset, make("span", {class: "spacer"}), make("button", {type: "submit", class: "primary"}, "Done"))));
  dialog.onclose = () => {
    saveSettings(read(loadSettings()));
    onChange();
  };
  dialog.onclick = (event) => {
    if (event.target === dialog) dialog.close();
  };
  dialog.showModal();
}
