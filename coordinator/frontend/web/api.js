// The server's HTTP API: questions and streams. Every failure is an ApiError that can be shown as it is.
import {loadSettings} from "./store.js";

export class ApiError extends Error {
  // kind: "gone" (no server), "key", "busy", "refused" (the request), "down" (the cluster), "cut" (within a stream)
  constructor(kind, message, retryAfter = 0) {
    super(message);
    this.kind = kind;
    this.retryAfter = retryAfter;  // seconds
  }
}

function headers(extra = {}) {
  const {apiKey} = loadSettings();
  return apiKey === "" ? extra : {...extra, Authorization: `Bearer ${apiKey}`};
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, {cache: "no-store", ...options, headers: headers(options.headers)});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("gone", "The server does not answer. It may be stopped, or the network between is down.");
  }
  if (response.ok) return response;
  throw await errorOf(response);
}

async function errorOf(response) {
  let said = "";
  try {
    said = (await response.json()).error?.message ?? "";
  } catch {
    // Not ours: a proxy's page, perhaps.
  }
  const {status} = response;
  if (status === 401 || status === 403) {
    return new ApiError("key", `${said || "The server wants an API key."} Enter it in the settings.`);
  }
  if (status === 429) {
    const wait = Number(response.headers.get("Retry-After")) || 2;
    return new ApiError("busy", "All places are taken. Your question waits and is asked again by itself.", wait);
  }
  if (status === 503) return new ApiError("down", said || "The cluster cannot work now.");
  if (status >= 500) return new ApiError("down", said || `The server had a problem (status ${status}).`);
  return new ApiError("refused", said || `The server refused the request (status ${status}).`);
}

export async function getJson(path, signal = undefined) {
  const response = await ask(path, {signal});
  return response.json();
}

export async function isHealthy() {
  try {
    await fetch("/healthz", {cache: "no-store"});
    return true;  // whatever it says of the cluster, it is there
  } catch {
    return false;
  }
}

// The events {event, id, data} of a stream; comments show as {comment}. Throws ApiError "cut" where the connection breaks.
export async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  let current = {};
  try {
    while (true) {
      const {done, value} = await reader.read();
      if (done) return;
      const lines = (buffer + value).split(/\r\n|\n|\r(?!$)/);
      buffer = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (current.data !== undefined) yield current;
          current = {};
        } else if (line.startsWith(":")) {
          yield {comment: line.slice(1).trim()};
        } else {
          addField(line, current);
        }
      }
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("cut", "The connection to the server broke.");
  } finally {
    reader.cancel().catch(() => {});
  }
}

function addField(line, event) {
  const colon = line.indexOf(":");
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  event[name] = name === "data" && event.data !== undefined ? `${event.data}\n${value}` : value;
}

// Runs a chat completion. Calls on.begin(response headers), on.text(delta), on.reasoning(delta), and returns
// {finish, usage}. Throws ApiError, or AbortError after signal.abort().
export async function streamChat(body, signal, on) {
  const response = await ask("/v1/chat/completions", {
    method: "POST", signal, headers: {"Content-Type": "application/json"},
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}}),
  });
  on.begin(response.headers);
  let finish = null;
  let usage = null;
  for await (const event of readEvents(response)) {
    if (event.data === undefined) continue;
    if (event.data === "[DONE]") return {finish, usage};
    const chunk = JSON.parse(event.data);
    if (chunk.error !== undefined) throw new ApiError("down", chunk.error.message);
    usage = chunk.usage ?? usage;
    const choice = chunk.choices?.[0];
    if (choice === undefined) continue;
    if (choice.delta?.reasoning_content) on.reasoning(choice.delta.reasoning_content);
    if (choice.delta?.content) on.text(choice.delta.content);
    finish = choice.finish_reason ?? finish;
  }
  throw new ApiError("cut", "The connection to the server broke within the answer.");
}

// The events of the cluster until signal.abort(). Throws as streamChat.
export async function* clusterEvents(signal) {
  yield* readEvents(await ask("/api/cluster/events", {signal}));
}
