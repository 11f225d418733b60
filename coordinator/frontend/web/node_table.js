// A row for each node; on a narrow screen, a card.
import {make} from "./dom.js";
import {bytes, duration, percent, whole} from "./format.js";

const COLUMNS = ["Node", "State", "Share", "Drive", "Memory", "Reads", "Kernel", "Round trip", "Queue", "Errors"];

export class NodeTable {
  constructor() {
    this.body = make("tbody");
    this.rows = new Map();
    this.element = make("div", {class: "node-table"}, make("table", {},
      make("thead", {}, make("tr", {}, COLUMNS.map((name) => make("th", {scope: "col"}, name)))), this.body));
  }

  clear() {
    this.rows.clear();
    this.body.replaceChildren();
  }

  show(nodes) {
    if (nodes.length === 0) {
      this.rows.clear();
      this.body.replaceChildren(make("tr", {}, make("td", {class: "none", colspan: String(COLUMNS.length)}, "No node has joined yet.")));
      return;
    }
    const seen = new Map();
    for (const node of nodes) {
      const key = `${node.id} ${node.name}`;
      const row = this.rows.get(key) ?? new NodeRow();
      row.show(node);
      seen.set(key, row);
    }
    this.rows = seen;
    const elements = [...seen.values()].map(({element}) => element);
    const same = elements.length === this.body.children.length && elements.every((element, i) => element === this.body.children[i]);
    if (!same) this.body.replaceChildren(...elements);
  }
}

class NodeRow {
  constructor() {
    this.cells = COLUMNS.map((name) => make("td", {"data-label": name}));
    this.cells[0] = make("th", {scope: "row"});
    this.element = make("tr", {}, this.cells);
    this.told = [];
  }

  show(node) {
    this.element.dataset.state = node.state;
    const values = [
      [node.name, node.remark || (node.id === "" ? "" : `node ${node.id.slice(0, 8)}`)],
      [node.state, lastSeen(node)],
      [percent(node.share), ""],
      roomOf(node.disk, "free"),
      roomOf(node.memory, "free"),
      readsOf(node),
      [node.kernel_rate > 0 ? `${bytes(node.kernel_rate)}/s` : "–", node.busy === null ? "" : `${percent(node.busy)} busy`],
      timesOf(node.rtt),
      [whole(node.queue), node.hit_rate === null ? "" : `${percent(node.hit_rate)} hits`],
      [whole(node.errors), node.lost > 0 ? `${whole(node.lost)} given away` : ""],
    ];
    values.forEach((value, i) => this.tell(i, value));
  }

  // Changes a cell only where it says something else.
  tell(i, [main, note, bar = null]) {
    const key = JSON.stringify([main, note, bar]);
    if (this.told[i] === key) return;
    this.told[i] = key;
    const first = i === 1 ? make("span", {class: "state", "data-state": main}, main) : make("span", {class: "main"}, main);
    const rest = note === null || note === "" ? [] : [make("small", {title: note}, note)];
    this.cells[i].replaceChildren(first, ...rest, ...(bar === null ? [] : [meter(bar)]));
  }
}

function meter(fraction) {
  const fill = make("i");
  fill.style.width = `${100 * Math.min(Math.max(fraction, 0), 1)}%`;
  return make("span", {class: "meter", "aria-hidden": "true"}, fill);
}

function roomOf({bytes: size, free}, word) {
  if (size === 0) return ["–", ""];
  return [`${bytes(free)} ${word}`, `of ${bytes(size)}`, 1 - free / size];
}

function readsOf(node) {
  const now = node.reads_now === null || node.reads_now === 0 ? "idle" : `${bytes(node.reads_now)}/s`;
  if (node.read_rate === 0) return [now, node.throttled ? "throttled" : ""];
  return [now, node.throttled ? "throttled" : `of ${bytes(node.read_rate)}/s`, (node.reads_now ?? 0) / node.read_rate];
}

function timesOf({p50, p99}) {
  return p50 === 0 ? ["–", ""] : [duration(p50), `p99 ${duration(p99)}`];
}

function lastSeen({state, last_seen_ms: ms}) {
  return state === "suspect" || state === "gone" ? `silent for ${duration(ms / 1000)}` : "";
}
