// How one message looks.
import {copyText, icon, iconButton, make} from "./dom.js";
import {duration, plural, rate} from "./format.js";
import {renderInto} from "./markdown.js";

export function userMessage(message, on) {
  const copy = iconButton("copy", "Copy", () => copyText(message.content, copy));
  return make("article", {class: "message user", "aria-label": "You"},
              make("div", {class: "bubble"}, message.content),
              make("div", {class: "tools"}, copy, iconButton("edit", "Edit and ask again", on.edit)));
}

// The model's message, kept up to date by update().
export class AssistantMessage {
  // on.again(), on.resume(), on.settings()
  constructor(message, on) {
    this.message = message;
    this.on = on;
    this.thinkingLabel = make("span");
    this.thinkingText = make("div", {class: "prose"});
    this.thinking = make("details", {class: "thinking"}, make("summary", {}, this.thinkingLabel), this.thinkingText);
    this.text = make("div", {class: "prose"});
    this.wait = make("div", {class: "wait"}, make("i"), make("i"), make("i"), make("span"));
    this.problem = make("div", {class: "problem", role: "alert"});
    this.stats = make("span", {class: "stats"});
    const copy = iconButton("copy", "Copy the answer", () => copyText(message.content, copy));
    this.tools = make("div", {class: "tools"}, copy, iconButton("again", "Answer again", on.again), this.stats);
    this.element = make("article", {class: "message assistant", "aria-label": "Model"},
                        this.thinking, this.text, this.wait, this.problem, this.tools);
    this.update();
  }

  // `live`: {stats, note} while it is being written.
  update(live = null) {
    const {message} = this;
    const running = message.state === "running";
    this.element.dataset.state = message.state;
    this.element.setAttribute("aria-busy", String(running));
    this.showThinking(running);
    renderInto(this.text, message.content);
    this.wait.hidden = !running || message.content !== "";
    this.wait.lastChild.textContent = live?.note ?? "";
    this.showProblem();
    const stats = running ? live?.stats : message.stats;
    this.stats.textContent = stats ? describeStats(stats, running) : "";
  }

  showThinking(running) {
    const {reasoning, content} = this.message;
    this.thinking.hidden = reasoning === "";
    if (reasoning === "") return;
    this.thinkingLabel.textContent = running && content === "" ? "Thinking …" : "Thinking";
    renderInto(this.thinkingText, reasoning);
  }

  showProblem() {
    const told = problemOf(this.message);
    this.problem.hidden = told === null;
    if (told === null || this.problem.dataset.told === told.text) return;
    this.problem.dataset.told = told.text;
    const actions = {
      resume: () => make("button", {type: "button", class: "primary", onclick: this.on.resume}, icon("again"), "Resume the answer"),
      again: () => make("button", {type: "button", class: "plain-button", onclick: this.on.again}, icon("again"), "Try again"),
      settings: () => make("button", {type: "button", class: "plain-button", onclick: this.on.settings}, icon("sliders"), "Settings"),
      cluster: () => make("a", {class: "plain-button", href: "#/cluster"}, icon("cluster"), "Look at the cluster"),
    };
    this.problem.replaceChildren(make("p", {}, told.text),
                                 make("div", {class: "actions"}, told.actions.map((name) => actions[name]())));
  }
}

// {text, actions} of what a message says of how it ended; null: all is well.
function problemOf(message) {
  if (message.state === "stopped") return {text: "You stopped this answer.", actions: ["resume"]};
  if (message.state === "lost") return {text: `${message.problem.text} What came is kept.`, actions: ["resume"]};
  if (message.state === "failed") {
    const more = {key: ["settings"], down: ["again", "cluster"], refused: ["again", "settings"]}[message.problem.kind];
    return {text: message.problem.text, actions: more ?? ["again"]};
  }
  if (message.state === "done" && message.stats?.finish === "length") {
    return {text: `The answer ends here because it reached the limit of ${plural(message.stats.tokens, "token")}. ` +
                  "Raise “Max tokens” and ask again for all of it.", actions: ["settings"]};
  }
  return null;
}

function describeStats(stats, running) {
  const parts = [];
  if (stats.tokensPerSecond !== null) parts.push(rate(stats.tokensPerSecond));
  if (stats.firstToken !== null) parts.push(`first token ${duration(stats.firstToken)}`);
  if (!running && stats.tokens > 0) parts.push(plural(stats.tokens, "token"));
  if (stats.cached > 0) parts.push(`${plural(stats.cached, "prompt token")} reused`);
  return parts.join(" · ");
}
