// Headless Chromium driven by the DevTools protocol over a pipe: no package is needed.
import {spawn} from "node:child_process";
import {mkdtempSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import path from "node:path";

const PATIENCE_MS = 60000;
// It finds no host but this machine.
const FLAGS = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
               "--disable-background-networking", "--disable-component-update", "--disable-sync",
               "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"];

export class Browser {
  static async start(program) {
    const profile = mkdtempSync(path.join(tmpdir(), "deltafin-chromium-"));
    const child = spawn(program, [...FLAGS, `--user-data-dir=${profile}`, "about:blank"],
                        {stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"]});
    const browser = new Browser(child, profile);
    await browser.send("Target.setDiscoverTargets", {discover: true});
    return browser;
  }

  constructor(child, profile) {
    this.child = child;
    this.profile = profile;
    this.ended = new Promise((resolve) => child.once("exit", resolve));
    this.waiting = new Map();  // by id of a command
    this.listeners = [];
    this.lastId = 0;
    let buffer = "";
    child.stdio[4].setEncoding("utf8");
    child.stdio[4].on("data", (data) => {
      const messages = (buffer + data).split("\0");
      buffer = messages.pop();
      for (const message of messages) this.take(JSON.parse(message));
    });
    this.ended.then((code) => {
      for (const {reject} of this.waiting.values()) reject(new Error(`Chromium ended with ${code}`));
    });
  }

  take(message) {
    const waiter = this.waiting.get(message.id);
    if (waiter === undefined) {
      for (const listener of this.listeners) listener(message);
      return;
    }
    this.waiting.delete(message.id);
    if (message.error === undefined) waiter.resolve(message.result);
    else waiter.reject(new Error(`${waiter.method}: ${message.error.message}`));
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.lastId;
    this.child.stdio[3].write(`${JSON.stringify({id, method, params, sessionId})}\0`);
    return new Promise((resolve, reject) => this.waiting.set(id, {method, resolve, reject}));
  }

  // A tab of its own, with storage of its own.
  async open(url, options = {}) {
    const {browserContextId} = await this.send("Target.createBrowserContext", {disposeOnDetach: false});
    const {targetId} = await this.send("Target.createTarget", {url: "about:blank", browserContextId});
    const {sessionId} = await this.send("Target.attachToTarget", {targetId, flatten: true});
    const page = new Page(this, sessionId);
    await page.prepare(options);
    await page.goto(url);
    return page;
  }

  async close() {
    this.send("Browser.close").catch(() => {});
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 5000);
    await this.ended;
    clearTimeout(timer);
    rmSync(this.profile, {recursive: true, force: true, maxRetries: 5});
  }
}

const KEY_CODES = {Enter: 13, Escape: 27, Delete: 46, ArrowDown: 40, F2: 113, Tab: 9, ",": 188};
const MODIFIERS = {Alt: 1, Control: 2, Shift: 8};

function described(details) {
  return details.exception?.description ?? details.text;
}

export class Page {
  constructor(browser, sessionId) {
    this.browser = browser;
    this.sessionId = sessionId;
    this.problems = [];  // what the page complained of: errors, refused content
    browser.listeners.push((message) => {
      if (message.sessionId !== sessionId) return;
      this.note(message);
    });
  }

  note({method, params}) {
    if (method === "Runtime.exceptionThrown") this.problems.push(described(params.exceptionDetails));
    if (method === "Log.entryAdded" && params.entry.source === "security") this.problems.push(params.entry.text);
    if (method === "Page.loadEventFired") this.loaded?.();
  }

  send(method, params) {
    return this.browser.send(method, params, this.sessionId);
  }

  // options: {width, height, scheme, script: run before every page}
  async prepare({width = 1280, height = 860, scheme = "light", script = null}) {
    for (const domain of ["Page", "Runtime", "Log"]) await this.send(`${domain}.enable`);
    await this.resize(width, height);
    await this.prefer(scheme);
    if (script !== null) await this.send("Page.addScriptToEvaluateOnNewDocument", {source: script});
  }

  resize(width, height) {
    const mobile = width < 600;
    return this.send("Emulation.setDeviceMetricsOverride", {width, height, mobile, deviceScaleFactor: 2});
  }

  prefer(scheme) {
    return this.send("Emulation.setEmulatedMedia", {features: [{name: "prefers-color-scheme", value: scheme}]});
  }

  async goto(url) {
    const loaded = new Promise((resolve) => { this.loaded = resolve; });
    await this.send("Page.navigate", {url});
    await loaded;
  }

  async reload() {
    const loaded = new Promise((resolve) => { this.loaded = resolve; });
    await this.send("Page.reload");
    await loaded;
  }

  // The value of an expression in the page; promises are awaited.
  async evaluate(expression) {
    const {result, exceptionDetails} = await this.send("Runtime.evaluate", {
      expression, awaitPromise: true, returnByValue: true, userGesture: true});
    if (exceptionDetails !== undefined) throw new Error(`${expression}: ${described(exceptionDetails)}`);
    return result.value;
  }

  // Waits until the expression is truthy and returns it.
  async until(expression, what = expression) {
    const begun = Date.now();
    while (true) {
      const value = await this.evaluate(expression);
      if (value) return value;
      if (Date.now() - begun > PATIENCE_MS) {
        throw new Error(`In vain waited for: ${what}. The page shows: ${await this.evaluate("document.body.innerText")}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  text(selector) {
    return this.evaluate(`document.querySelector(${JSON.stringify(selector)})?.textContent ?? null`);
  }

  async click(selector) {
    await this.until(`document.querySelector(${JSON.stringify(selector)}) !== null`, `${selector} to click`);
    await this.evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);
  }

  async type(text) {
    await this.send("Input.insertText", {text});
  }

  // "Enter", "Alt+n"
  async press(chord) {
    const parts = chord.split("+");
    const key = parts.pop();
    const modifiers = parts.reduce((sum, name) => sum + MODIFIERS[name], 0);
    const code = KEY_CODES[key] ?? key.toUpperCase().charCodeAt(0);
    const text = modifiers === 0 && key.length === 1 ? key : key === "Enter" ? "\r" : undefined;
    const type = text === undefined ? "rawKeyDown" : "keyDown";
    await this.send("Input.dispatchKeyEvent", {type, key, modifiers, windowsVirtualKeyCode: code, text});
    await this.send("Input.dispatchKeyEvent", {type: "keyUp", key, modifiers, windowsVirtualKeyCode: code});
  }

  async screenshot(file) {
    const {data} = await this.send("Page.captureScreenshot", {format: "png"});
    writeFileSync(file, Buffer.from(data, "base64"));
  }
}
