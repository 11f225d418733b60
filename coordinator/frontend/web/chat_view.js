// A conversation: its messages and the composer.
import {Answer, requestOf} from "./answer.js";
import {connection} from "./connection.js";
import {announce, byId, icon, make, toast} from "./dom.js";
import {duration} from "./format.js";
import {splitBlocks} from "./markdown.js";
import {AssistantMessage, userMessage} from "./message_view.js";
import {loadSettings, newConversation, saveConversation, titleOf} from "./store.js";

const NEAR_END_PX = 60;
const SAVE_EVERY_MS = 1000;
const MOST_TRIES = 3;
const STARTERS = ["Do you believe in ghosts?", "It was a dark and stormy night. Go on.", "Write a short letter to an old friend.",
                  "What does the sea sound like?"];

// What the server thinks how long the prompt takes.
function estimate(headers) {
  const seconds = Number(headers.get("X-Estimated-First-Token-Seconds"));
  return seconds > 1 ? `First words in about ${duration(seconds)}` : "";
}

export class ChatView {
  // on.changed(conversation): it was saved or its title changed. on.settings(): open them. on.busy(bool). on.model(): a
  // promise of its name.
  constructor(on) {
    this.on = on;
    this.conversation = newConversation();
    this.answers = new Map();  // those that are being written, by conversation; they go on unseen
    this.view = null;          // AssistantMessage of the one that is shown
    this.follow = true;
    this.log = byId("log");
    this.prompt = byId("prompt");
    this.listen();
  }

  listen() {
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    byId("stop").addEventListener("click", () => this.stop());
    byId("to-end").addEventListener("click", () => this.toEnd());
    this.prompt.addEventListener("input", () => this.fit());
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    this.log.addEventListener("scroll", () => {
      this.follow = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR_END_PX;
      byId("to-end").hidden = this.follow;
    });
    connection.addEventListener("back", () => this.goOn());
  }

  show(conversation) {
    if (conversation === this.conversation && this.log.childElementCount > 0) return;
    this.conversation = conversation;
    for (const message of conversation.messages) {
      if (message.state !== "running" || this.answer?.message === message) continue;
      Object.assign(message, {state: "lost", problem: {kind: "cut", text: "The page was closed within this answer."}});
    }
    this.draw();
    this.setBusy(this.busy);
    this.toEnd();
  }

  draw() {
    const {messages} = this.conversation;
    this.log.replaceChildren(...(messages.length === 0 ? [this.welcome()] : messages.map((_, i) => this.element(i))));
  }

  element(i) {
    const message = this.conversation.messages[i];
    if (message.role === "user") return userMessage(message, {edit: () => this.edit(i)});
    const view = new AssistantMessage(message, {again: () => this.again(i), resume: () => this.resume(i), settings: this.on.settings});
    if (this.answer?.message === message) this.view = view;
    return view.element;
  }

  welcome() {
    const starters = STARTERS.map((text) => make("button", {type: "button", class: "starter", onclick: () => this.send(text)}, text));
    const fin = icon("fin");
    fin.classList.add("fin");
    return make("div", {class: "welcome"}, fin, make("h2", {}, "What shall we talk about?"),
                make("p", {}, "Everything stays on your own machines."), make("div", {class: "starters"}, starters));
  }

  // Of the conversation that is shown.
  get answer() {
    return this.answers.get(this.conversation) ?? null;
  }

  get busy() {
    return this.answer !== null;
  }

  send(text = this.prompt.value) {
    if (this.busy || text.trim() === "") return;
    const {conversation} = this;
    if (text === this.prompt.value) this.prompt.value = "";
    this.fit();
    if (!conversation.named && conversation.messages.length === 0) conversation.title = titleOf(text);
    conversation.messages.push({role: "user", content: text.trim()});
    this.askLast();
  }

  // Asks for an answer to the last message.
  askLast() {
    const settings = loadSettings();
    const request = {...requestOf(settings), system: settings.system};
    this.conversation.messages.push({role: "assistant", content: "", reasoning: "", state: "running", problem: null, stats: null, request});
    this.draw();
    this.toEnd();
    this.run(this.conversation.messages.length - 1);
  }

  again(i) {
    if (this.busy) return;
    this.conversation.messages.length = i;
    this.askLast();
  }

  resume(i) {
    if (!this.busy) this.run(i);
  }

  edit(i) {
    if (this.busy) return;
    this.prompt.value = this.conversation.messages[i].content;
    this.conversation.messages.length = i;
    this.draw();
    this.fit();
    this.prompt.focus();
    toast("Change your message and send it again: what came after it is gone then.");
  }

  async run(i) {
    const {conversation} = this;
    const message = conversation.messages[i];
    const answer = new Answer(message, conversation.messages.slice(0, i), this.on.model, {
      change: () => this.changed(conversation, answer),
      begun: (headers) => { answer.note = estimate(headers); },
      waiting: (seconds) => { answer.note = `All places are taken; asking again in ${duration(seconds)}`; },
    });
    answer.note = "";
    answer.announced = 0;
    this.answers.set(conversation, answer);
    this.draw();
    this.setBusy(true);
    this.save(conversation);
    await answer.run();
    this.answers.delete(conversation);
    if (this.conversation === conversation) this.ended(answer);
    this.on.busy(this.answers.size > 0);
    this.save(conversation);
    if (message.state === "lost") connection.lost();
  }

  // Draws at most once a frame.
  changed(conversation, answer) {
    const now = performance.now();
    if (now - (this.savedAt ?? 0) > SAVE_EVERY_MS) this.save(conversation);
    if (this.answer !== answer || this.frame !== undefined) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = undefined;
      const shown = this.answer;
      if (shown === null) return;
      this.view.update({stats: shown.first === null ? null : shown.stats(), note: shown.note});
      this.announceBlocks(shown);
      if (this.follow) this.log.scrollTop = this.log.scrollHeight;
    });
  }

  // Reads paragraphs to people who listen, once each is complete.
  announceBlocks(answer) {
    const complete = splitBlocks(answer.message.content).slice(0, -1);
    if (complete.length <= answer.announced) return;
    announce(complete.slice(answer.announced).join("\n"));
    answer.announced = complete.length;
  }

  ended(answer) {
    this.view.update();
    this.setBusy(false);
    if (this.follow) this.log.scrollTop = this.log.scrollHeight;
    const rest = splitBlocks(answer.message.content).slice(answer.announced).join("\n");
    announce(answer.message.state === "done" ? `${rest} End of the answer.` : `${rest} The answer broke off.`);
  }

  stop() {
    this.answer?.stop();
  }

  // The server is back: the answer that it broke off goes on; unless it broke off again and again at the same word.
  goOn() {
    const last = this.conversation.messages.length - 1;
    const message = this.conversation.messages[last];
    if (message?.state !== "lost") return;
    const length = message.content.length + message.reasoning.length;
    this.goneOn = this.goneOn?.message === message && this.goneOn.length === length
      ? {...this.goneOn, times: this.goneOn.times + 1} : {message, length, times: 1};
    if (this.goneOn.times <= MOST_TRIES) this.resume(last);
  }

  setBusy(busy) {
    byId("send").hidden = busy;
    byId("stop").hidden = !busy;
    this.on.busy(this.answers.size > 0);
  }

  async save(conversation) {
    this.savedAt = performance.now();
    conversation.updated = Date.now();
    this.on.changed(conversation);
    try {
      await saveConversation(conversation);
    } catch (error) {
      if (this.complained !== error.message) toast(error.message);
      this.complained = error.message;
    }
  }

  toEnd() {
    this.follow = true;
    this.log.scrollTop = this.log.scrollHeight;
    byId("to-end").hidden = true;
  }

  // The composer grows with its text.
  fit() {
    this.prompt.style.height = "auto";
    this.prompt.style.height = `${Math.min(this.prompt.scrollHeight, window.innerHeight * 0.4)}px`;
  }
}
