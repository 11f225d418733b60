// The cluster: what limits speed now, the nodes, the token that runs through them, the experts, what happened.
import {make} from "./dom.js";
import {feed} from "./feed.js";
import {clock, rate, whole} from "./format.js";
import {ExpertMap, LayerGrid, Sparkline, color} from "./heat.js";
import {NodeTable} from "./node_table.js";

const PLACES = [["spine", "Spine"], ["disk", "Drives"], ["experts", "Experts’ arithmetic"], ["network", "Network and waiting"]];
const MAX_EVENTS = 40;

function panel(title, note, ...content) {
  return make("section", {class: "panel full"}, make("h2", {}, title),
              note === null ? null : make("p", {class: "note"}, note), ...content);
}

function figure(label) {
  const value = make("dd", {}, "–");
  return {element: make("div", {}, make("dt", {}, label), value), value};
}

export class ClusterView {
  constructor(element) {
    this.element = element;
    this.isOpen = false;
    this.sentence = make("p", {class: "sentence", "aria-live": "polite"}, "Looking …");
    this.verdict = make("p", {class: "verdict"});
    this.bar = make("div", {class: "shares", role: "img"});
    this.legend = make("ul", {class: "legend"});
    this.speed = new Sparkline("Tokens per second over the last two minutes");
    this.figures = {rate: figure("Speed"), requests: figure("Requests running"), waiting: figure("Requests waiting"),
                    written: figure("Tokens written"), read: figure("Tokens read"), copies: figure("Copies of an expert"),
                    epoch: figure("Placement epoch")};
    this.nodes = new NodeTable();
    this.layers = new LayerGrid();
    this.experts = new ExpertMap();
    this.events = make("ol", {class: "events"});
    this.build();
    feed.addEventListener("cluster", ({detail}) => this.show(detail));
    feed.addEventListener("heat", ({detail}) => this.experts.show(detail));
    feed.addEventListener("problem", ({detail}) => this.showProblem(detail));
  }

  build() {
    const figures = make("dl", {class: "figures"}, Object.values(this.figures).map(({element}) => element));
    this.scale = make("div", {class: "scale", "aria-hidden": "true"});
    this.element.append(make("div", {class: "panels"},
      make("section", {class: "panel limit"}, make("h2", {}, "What limits speed now"),
           this.sentence, this.verdict, this.bar, this.legend),
      make("section", {class: "panel numbers"}, make("h2", {class: "unseen"}, "Numbers"), figures, this.speed.element),
      panel("Nodes", null, this.nodes.element),
      panel("The running token", "Each cell is a node’s part of a layer; the stronger its colour, the longer it took. Red: given to " +
            "other nodes.", this.layers.element),
      panel("Experts", "Layers from top to bottom, experts from left to right: how often the router chose each lately.",
            this.experts.element, this.scale),
      panel("What happened", null, this.events)));
  }

  open() {
    this.isOpen = true;
    feed.look(this);
    this.redraw();
  }

  close() {
    this.isOpen = false;
    feed.leave(this);
  }

  // After a change of theme.
  redraw() {
    this.scale.replaceChildren(make("span", {}, "never"), ...[0, 0.17, 0.33, 0.5, 0.67, 0.83, 1].map((at) => {
      const step = make("i");
      step.style.background = `rgb(${color(at).join(" ")})`;
      return step;
    }), make("span", {}, "most"));
    for (const picture of [this.layers, this.experts, this.speed]) picture.picture.paint();
  }

  show(cluster) {
    if (this.speedAt !== cluster.time) this.speed.add(cluster.engine.running > 0 ? cluster.engine.tokens_per_second ?? 0 : 0);
    this.speedAt = cluster.time;
    if (!this.isOpen) return;
    if (this.sentence.textContent !== cluster.limit.sentence) this.sentence.textContent = cluster.limit.sentence;
    this.verdict.dataset.verdict = cluster.verdict;
    this.verdict.textContent = cluster.reason;
    this.showShares(cluster.engine.shares);
    this.showFigures(cluster);
    this.nodes.show(cluster.nodes);
    this.layers.show(cluster);
    this.showEvents(cluster.events);
  }

  showProblem(error) {
    this.sentence.textContent = error.message;
    this.nodes.clear();
  }

  showShares(shares) {
    this.bar.hidden = shares === null;
    this.legend.hidden = shares === null;
    if (shares === null) return;
    const told = PLACES.map(([place, name]) => [place, name, Math.round(100 * shares[place])]);
    this.bar.replaceChildren(...told.map(([place, name, percent]) => {
      const part = make("i", {"data-place": place, title: `${name}: ${percent} %`});
      part.style.width = `${100 * shares[place]}%`;
      return part;
    }));
    this.bar.setAttribute("aria-label", told.map(([, name, percent]) => `${name} ${percent} %`).join(", "));
    this.legend.replaceChildren(...told.map(([place, name, percent]) =>
      make("li", {}, make("i", {"data-place": place}), `${name} `, make("b", {}, `${percent} %`))));
  }

  showFigures({engine, copies, epoch}) {
    const {figures} = this;
    const speed = engine.running === 0 ? "idle" : engine.tokens_per_second === null ? "starting" : rate(engine.tokens_per_second);
    figures.rate.value.textContent = speed;
    figures.requests.value.textContent = whole(engine.running);
    figures.waiting.value.textContent = whole(engine.waiting);
    figures.written.value.textContent = whole(engine.decode_tokens);
    figures.read.value.textContent = whole(engine.prefill_tokens);
    figures.copies.value.textContent = copies.least < copies.wanted ? `${copies.least}, wanted ${copies.wanted}` : whole(copies.least);
    figures.epoch.value.textContent = String(epoch);
  }

  showEvents(events) {
    const newest = events.length === 0 ? 0 : events[events.length - 1].number;
    if (this.newest === newest) return;
    this.newest = newest;
    const lines = events.slice(-MAX_EVENTS).reverse().map((event) => make("li", {},
      make("time", {}, clock(event.time * 1000)),
      make("span", {class: "state", "data-state": event.to}, event.to),
      make("span", {class: "what"}, make("b", {}, event.node),
           event.from === "gone" && event.to === "joining" ? " came" : ` was ${event.from}`,
           event.times > 1 ? `, ${whole(event.times)} times since ${clock(event.since * 1000)}` : "",
           event.why === "" ? "" : make("q", {}, event.why))));
    const none = make("li", {class: "none"}, "Nothing yet: nodes that come, go or fail are listed here.");
    this.events.replaceChildren(...(lines.length > 0 ? lines : [none]));
  }
}
