// One answer of the model: asks, collects, measures, and asks again where the connection broke. An answer is asked for
// with a seed of its own, so that the same request gives the same text: one that broke off goes on where it was.
import {ApiError, streamChat} from "./api.js";

// A rate is told once it was measured over so long.
const MEASURED_SECONDS = 0.1;

// What the API is asked for a message at the end of `messages`.
export function requestOf(settings) {
  const request = {temperature: settings.temperature, seed: seedOf(settings)};
  if (settings.topP < 1) request.top_p = settings.topP;
  if (settings.maxTokens > 0) request.max_tokens = settings.maxTokens;
  if (settings.thinking !== "") request.reasoning_effort = settings.thinking;
  return request;
}

function seedOf(settings) {
  if (settings.seed !== "") return Number(settings.seed);
  return crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
}

function wireMessages(system, messages) {
  const said = messages.map(({role, content, reasoning}) =>
    role === "assistant" && reasoning ? {role, content, reasoning_content: reasoning} : {role, content});
  return system.trim() === "" ? said : [{role: "system", content: system}, ...said];
}

// Collects a text that may be told once more from its beginning: what is known already is passed over, and where it
// differs (another model answers now) the new text replaces the old one.
class Telling {
  constructor(known) {
    this.known = known;
    this.told = "";
  }
  // The whole text after `delta`.
  add(delta) {
    this.told += delta;
    return this.known.startsWith(this.told) ? this.known : this.told;
  }
}

export class Answer {
  // `message` is the assistant's, filled in as words come; `before` are the messages that it answers. on.change() after
  // every change, on.waiting(seconds) where it will be asked again by itself.
  // `nameOfModel`: a promise of it.
  constructor(message, before, nameOfModel, on) {
    this.message = message;
    this.before = before;
    this.nameOfModel = nameOfModel;
    this.on = on;
    this.controller = new AbortController();
  }

  get running() {
    return this.message.state === "running";
  }

  stop() {
    this.controller.abort();
  }

  // Resolves when nothing more comes; the message's state and problem say why.
  async run() {
    const {message} = this;
    message.state = "running";
    message.problem = null;
    this.begun = performance.now();
    this.first = null;
    this.pieces = 0;
    try {
      const {finish, usage} = await this.askUntilThereIsRoom();
      message.state = "done";
      message.stats = this.stats(usage);
      message.stats.finish = finish;
    } catch (error) {
      this.takeError(error);
    }
    this.on.change();
  }

  async askUntilThereIsRoom() {
    while (true) {
      try {
        return await this.ask();
      } catch (error) {
        if (error.kind !== "busy") throw error;
        this.on.waiting(error.retryAfter);
        await this.pause(error.retryAfter);
      }
    }
  }

  async ask() {
    const {message} = this;
    const {system, ...asked} = message.request;
    const content = new Telling(message.content);
    const reasoning = new Telling(message.reasoning);
    const body = {model: await this.nameOfModel(), messages: wireMessages(system, this.before), ...asked};
    return streamChat(body, this.controller.signal, {
      begin: (headers) => this.on.begun(headers),
      text: (delta) => {
        this.count();
        message.content = content.add(delta);
        this.on.change();
      },
      reasoning: (delta) => {
        this.count();
        message.reasoning = reasoning.add(delta);
        this.on.change();
      },
    });
  }

  pause(seconds) {
    const {signal} = this.controller;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, seconds * 1000);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(signal.reason);
      }, {once: true});
    });
  }

  count() {
    this.last = performance.now();
    this.first ??= this.last;
    ++this.pieces;
  }

  // {firstToken, tokensPerSecond, tokens, cached}: seconds; null: not known.
  stats(usage = null) {
    if (this.first === null) return {firstToken: null, tokensPerSecond: null, tokens: usage?.completion_tokens ?? 0, cached: 0};
    const tokens = usage?.completion_tokens ?? this.pieces;
    const seconds = (this.last - this.first) / 1000;
    // The first token ends the prefill; the rate is that of those after it. The first moments say little.
    return {firstToken: (this.first - this.begun) / 1000, tokens, cached: usage?.prompt_tokens_details?.cached_tokens ?? 0,
            tokensPerSecond: tokens > 2 && seconds > MEASURED_SECONDS ? (tokens - 1) / seconds : null};
  }

  takeError(error) {
    const {message} = this;
    message.stats = this.stats();
    if (error.name === "AbortError") {
      message.state = "stopped";
      return;
    }
    const known = error instanceof ApiError;
    message.state = known && (error.kind === "gone" || error.kind === "cut") ? "lost" : "failed";
    message.problem = {kind: known ? error.kind : "refused", text: error.message};
    if (!known) console.error(error);
  }
}
