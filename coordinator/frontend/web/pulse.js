// The cluster in a nutshell, at the foot of the sidebar: a dot for each node, and what limits speed while an answer is
// being written.
import {getJson} from "./api.js";
import {make} from "./dom.js";
import {feed} from "./feed.js";
import {plural, rate} from "./format.js";

const ASK_EVERY_MS = 15000;
const MAX_DOTS = 24;

export class Pulse {
  constructor(element) {
    this.element = element;
    feed.addEventListener("cluster", ({detail}) => this.show(detail));
    feed.addEventListener("problem", () => this.element.replaceChildren(make("span", {}, "The cluster does not answer")));
    setInterval(() => this.refresh(), ASK_EVERY_MS);
    this.refresh();
  }

  setBusy(busy) {
    if (busy) feed.look(this);
    else feed.leave(this);
  }

  async refresh() {
    if (feed.controller !== null || document.visibilityState !== "visible") return;
    try {
      this.show(await getJson("/api/cluster"));
    } catch {
      // The banner and the chat say what is wrong; this only looks on.
    }
  }

  show({nodes, engine}) {
    const dots = nodes.slice(0, MAX_DOTS).map(({state}) => make("i", {class: "dot", "data-state": state}));
    const trouble = nodes.filter(({state}) => state === "suspect" || state === "gone").length;
    const well = engine.running > 0 && engine.tokens_per_second !== null ? rate(engine.tokens_per_second) : "ready";
    const told = trouble > 0 ? `${plural(trouble, "node")} in trouble` : well;
    this.element.replaceChildren(make("span", {class: "dots", "aria-hidden": "true"}, dots),
                                 make("span", {}, `${plural(nodes.length, "node")} · ${told}`));
    this.element.setAttribute("aria-label", `Cluster: ${plural(nodes.length, "node")}, ${told}`);
  }
}
