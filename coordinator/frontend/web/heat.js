// Pictures of numbers on canvases. Colours follow the theme; each picture tells what is under the pointer in a line below
// it, and what matters most to people who do not see it.
import {make} from "./dom.js";

// From nothing to most: dark water to light, and paper to ink, with even steps of lightness.
const RAMPS = {
  dark: [[18, 31, 41], [16, 62, 84], [14, 98, 124], [28, 140, 150], [92, 184, 150], [186, 218, 128], [255, 240, 150]],
  light: [[236, 238, 236], [202, 226, 226], [142, 203, 208], [72, 168, 184], [24, 124, 152], [18, 80, 116], [16, 38, 72]],
};
const GIVEN_UP = {dark: [230, 84, 84], light: [206, 48, 48]};

export function isDark() {
  const {theme} = document.documentElement.dataset;
  return theme === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
}

// Of 0 to 1.
export function color(fraction) {
  const ramp = RAMPS[isDark() ? "dark" : "light"];
  const place = Math.min(Math.max(fraction, 0), 1) * (ramp.length - 1);
  const low = Math.min(Math.floor(place), ramp.length - 2);
  return ramp[low].map((value, i) => Math.round(value + (ramp[low + 1][i] - value) * (place - low)));
}

const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

// A canvas as wide as its place, sharp on every screen. `draw(context, width, height)` in CSS pixels.
export class Picture {
  constructor(label, draw, describe) {
    this.draw = draw;
    this.canvas = make("canvas", {role: "img", "aria-label": label});
    this.readout = make("p", {class: "readout"});
    this.element = make("div", {class: "picture"}, this.canvas, this.readout);
    this.label = label;
    this.height = 0;
    new ResizeObserver(() => this.paint()).observe(this.element);
    const tell = (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.hover = [event.clientX - box.left, event.clientY - box.top];
      this.readout.textContent = describe(...this.hover) ?? this.rest;
    };
    this.canvas.addEventListener("pointermove", tell);
    this.canvas.addEventListener("pointerdown", tell);
    this.canvas.addEventListener("pointerleave", () => {
      this.hover = null;
      this.readout.textContent = this.rest;
    });
    this.describe = describe;
    this.hover = null;
    this.rest = "";
  }

  // What is told while nothing is pointed at; also read aloud.
  say(text) {
    this.rest = text;
    this.canvas.setAttribute("aria-label", `${this.label}. ${text}`);
    this.readout.textContent = this.hover === null ? text : this.describe(...this.hover) ?? text;
  }

  paint() {
    const width = this.element.clientWidth;
    if (width === 0 || this.height === 0) return;
    const scale = window.devicePixelRatio || 1;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(this.height * scale);
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    this.draw(context, width, this.height);
  }
}

// Nodes down, layers across: how long each node took for its part.
export class LayerGrid {
  static ROW = 26;

  constructor() {
    this.picture = new Picture("Time of each node for its part of each layer", (context, width) => this.draw(context, width),
                               (x, y) => this.describe(x, y));
    this.element = this.picture.element;
    this.nodes = [];
  }

  show({step, nodes}) {
    this.step = step;
    this.nodes = nodes.filter((node) => node.layer_ms.length > 0);
    this.most = Math.max(0.001, ...this.nodes.flatMap((node) => node.layer_ms));
    this.picture.height = LayerGrid.ROW * this.nodes.length + 10;
    this.picture.say(this.summary());
    this.picture.paint();
  }

  get labelWidth() {
    return Math.min(150, this.element.clientWidth * 0.32);
  }

  draw(context, width) {
    const left = this.labelWidth;
    const cell = (width - left) / this.step.num_layers;
    const gap = cell > 5 ? 1.5 : 0;
    const style = getComputedStyle(this.element);
    context.font = `12px ${style.fontFamily}`;
    context.textBaseline = "middle";
    this.nodes.forEach((node, row) => {
      const y = row * LayerGrid.ROW + 8;
      context.fillStyle = style.color;
      context.fillText(fitted(context, node.name, left - 10), 0, y + LayerGrid.ROW / 2 - 2);
      node.layer_ms.forEach((ms, column) => {
        context.fillStyle = css(ms < 0 ? GIVEN_UP[isDark() ? "dark" : "light"] : color(ms === 0 ? 0 : 0.12 + 0.88 * ms / this.most));
        context.fillRect(left + column * cell, y, Math.max(cell - gap, 0.6), LayerGrid.ROW - 4);
      });
    });
    this.drawCursor(context, left, cell, style);
  }

  // The layer under way.
  drawCursor(context, left, cell, style) {
    const column = this.step.layer - this.step.first_layer;
    if (column < 0 || this.step.number === 0) return;
    const x = left + (column + 0.5) * cell;
    context.fillStyle = style.getPropertyValue("--accent");
    context.beginPath();
    context.moveTo(x - 5, 0);
    context.lineTo(x + 5, 0);
    context.lineTo(x, 6);
    context.fill();
  }

  describe(x, y) {
    const left = this.labelWidth;
    const row = Math.floor((y - 8) / LayerGrid.ROW);
    const column = Math.floor((x - left) / ((this.element.clientWidth - left) / this.step.num_layers));
    const node = this.nodes[row];
    if (node === undefined || column < 0 || column >= this.step.num_layers) return null;
    return `Layer ${column + this.step.first_layer}, ${node.name}: ${described(node.layer_ms[column])}`;
  }

  summary() {
    let slowest = {ms: 0};
    for (const {name, layer_ms: times} of this.nodes) {
      times.forEach((ms, i) => { if (ms > slowest.ms) slowest = {ms, name, layer: i + this.step.first_layer}; });
    }
    if (slowest.ms === 0) return "No token is under way.";
    return `Longest: ${slowest.name} with ${described(slowest.ms)} at layer ${slowest.layer}.`;
  }
}

function described(ms) {
  if (ms < 0) return "its work was given to other nodes";
  if (ms === 0) return "no part";
  return ms >= 10 ? `${ms.toFixed(0)} ms` : `${ms.toFixed(2)} ms`;
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`…${text.slice(-end)}`).width > width) --end;
  return `…${text.slice(-end)}`;
}

// Layers down, experts across: how often the router chose each expert lately.
export class ExpertMap {
  constructor() {
    this.picture = new Picture("How often each expert of each layer was chosen lately",
                               (context, width, height) => this.draw(context, width, height), (x, y) => this.describe(x, y));
    this.element = this.picture.element;
    this.heat = null;
  }

  show(heat) {
    this.heat = heat;
    this.levels = Uint8Array.from(atob(heat.levels), (letter) => letter.charCodeAt(0));
    this.picture.height = Math.min(Math.max(heat.layers * 3, 14 * Math.min(heat.layers, 16)), 420);
    this.picture.say(heat.most === 0 ? "No expert was chosen yet." : this.summary());
    this.picture.paint();
  }

  draw(context, width, height) {
    if (this.heat === null) return;
    const {layers, experts} = this.heat;
    const small = new OffscreenCanvas(experts, layers);
    const image = new ImageData(experts, layers);
    this.levels.forEach((level, i) => image.data.set([...color(level / 255), 255], 4 * i));
    small.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = experts > width;
    context.drawImage(small, 0, 0, width, height);
  }

  describe(x, y) {
    const {layers, experts, first_layer: first} = this.heat ?? {layers: 0};
    const layer = Math.floor(y / this.picture.height * layers);
    const expert = Math.floor(x / this.element.clientWidth * experts);
    if (!(layer >= 0 && layer < layers && expert >= 0 && expert < experts)) return null;
    return `Layer ${layer + first}, expert ${expert}: ${this.times(this.levels[layer * experts + expert])}`;
  }

  times(level) {
    const count = this.heat.most * (level / 255) ** 2;
    return level === 0 ? "not chosen lately" : `chosen about ${count >= 10 ? count.toFixed(0) : count.toFixed(1)} times lately`;
  }

  summary() {
    const {layers, experts, first_layer: first} = this.heat;
    const used = this.levels.reduce((sum, level) => sum + (level > 0), 0);
    const hottest = this.levels.indexOf(255);
    return `${Math.round(100 * used / (layers * experts))} % of all experts were chosen lately; most often expert ` +
      `${hottest % experts} of layer ${Math.floor(hottest / experts) + first}.`;
  }
}

// A line of the last values.
export class Sparkline {
  static POINTS = 240;

  constructor(label) {
    this.picture = new Picture(label, (context, width, height) => this.draw(context, width, height), () => null);
    this.picture.height = 44;
    this.element = this.picture.element;
    this.values = [];
  }

  add(value) {
    this.values.push(value);
    if (this.values.length > Sparkline.POINTS) this.values.shift();
    this.picture.paint();
  }

  draw(context, width, height) {
    const accent = getComputedStyle(this.element).getPropertyValue("--accent");
    const most = Math.max(1e-9, ...this.values);
    const x = (i) => width * (i + Sparkline.POINTS - this.values.length) / (Sparkline.POINTS - 1);
    const y = (value) => height - 2 - (height - 6) * value / most;
    context.beginPath();
    this.values.forEach((value, i) => context.lineTo(x(i), y(value)));
    context.strokeStyle = accent;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.stroke();
    context.lineTo(width, height);
    context.lineTo(x(0), height);
    context.globalAlpha = 0.14;
    context.fillStyle = accent;
    context.fill();
  }
}
