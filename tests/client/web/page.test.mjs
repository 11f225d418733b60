// What the page does with whatever it is sent: the server's files are real, the API's answers are made up here.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {Browser} from "./browser.mjs";
import {LAST_STATE, LAST_TEXT, ask, ended, kept, screenshot} from "./person.mjs";
import {Cluster} from "./servers.mjs";

let cluster;
let browser;

before(async () => {
  [cluster, browser] = await Promise.all([Cluster.start(1), Browser.start(process.env.CHROMIUM)]);
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
});

// A page whose chat requests get these answers, one after the other, the last one again and again: {status, headers, body}
// or a list of chunks. `window.asked` has the requests' bodies.
async function openWith(answers) {
  const page = await browser.open(cluster.url, {script: `
    window.asked = [];
    const answers = ${JSON.stringify(answers)};
    const real = window.fetch;
    window.fetch = async (path, options) => {
      if (path !== "/v1/chat/completions") return real(path, options);
      window.asked.push(JSON.parse(options.body));
      const answer = answers.length > 1 ? answers.shift() : answers[0];
      if (!Array.isArray(answer)) return new Response(answer.body, {status: answer.status, headers: answer.headers});
      const lines = answer.map((chunk) => "data: " + (typeof chunk === "string" ? chunk : JSON.stringify(chunk)) + "\\n\\n");
      return new Response(new Blob(lines), {headers: {"Content-Type": "text/event-stream"}});
    };`});
  await page.until("document.querySelector('.welcome') !== null", "the page");
  return page;
}

const delta = (content, more = {}) => ({choices: [{index: 0, delta: {content, ...more}}]});
const usage = {prompt_tokens: 9, completion_tokens: 4, prompt_tokens_details: {cached_tokens: 5}};
const end = (reason = "stop") => [{choices: [{index: 0, delta: {}, finish_reason: reason}]}, {choices: [], usage}, "[DONE]"];
const error = (status, message, headers = {}) => ({status, headers, body: JSON.stringify({error: {message}})});

const RICH = `# A heading

Some *words*, **more** and \`code\`.

\`\`\`python
print("<b>")
\`\`\`

1. one
2. two
   - inner

| a | b |
|---|---|
| 1 | 2 |

> said [here](https://example.org/a_(b)) and <https://example.com>`;

test("Markdown becomes elements, thinking is folded, numbers are told", async () => {
  const page = await openWith([[delta(undefined, {reasoning_content: "Let me *think*."}), delta(RICH), ...end()]]);
  await ask(page, "Hi");
  assert.equal(await ended(page), "done");
  const count = (selector) => page.evaluate(`document.querySelectorAll(".message.assistant > .prose ${selector}").length`);
  const all = {"h3": 1, "em": 1, "strong": 1, "pre code": 1, "ol > li": 2, "ul > li": 1, "td": 2, "blockquote a": 2};
  for (const [selector, wanted] of Object.entries(all)) {
    assert.equal(await count(selector), wanted, selector);
  }
  assert.equal(await page.text(".prose pre code"), 'print("<b>")');
  assert.equal(await page.evaluate("document.querySelector('.thinking').open"), false);
  assert.equal(await page.text(".thinking .prose"), "Let me think.");
  assert.match(await page.text(".stats"), /4 tokens · 5 prompt tokens reused$/);
  await page.evaluate("document.querySelector('.thinking').open = true");
  await screenshot(page, "markdown-light");
  assert.deepEqual(page.problems, []);
});

const HOSTILE = [
  "<img src=x onerror=alert(1)><script>alert(1)</script>",
  "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) ![d](https://example.org/x.png)",
  "<a href='javascript:1'>x</a> &lt;script&gt;",
  "[x](https://example.org/\"onmouseover=alert(1))",
  `x${"**".repeat(4000)}`, "[".repeat(4000), `x${"`".repeat(3001)}`, "> ".repeat(2000), `${"- ".repeat(500)}x`, `|${"-|".repeat(3000)}`,
  "* a\n".repeat(2000), "_a".repeat(4000), "~~".repeat(4000), "a".repeat(200000),
];

test("no text of a model becomes script, attribute or request, or keeps the page busy", async () => {
  const page = await openWith([[delta(HOSTILE.join("\n\n")), ...end()]]);
  await ask(page, "<img src=x onerror=alert(2)>");
  assert.equal(await ended(page), "done");
  const found = await page.evaluate(`[...document.querySelectorAll("#log *")].filter((element) =>
    ["SCRIPT", "IMG", "IFRAME", "STYLE", "LINK"].includes(element.tagName) ||
    [...element.attributes].some(({name}) => name.startsWith("on")) ||
    (element.hasAttribute("href") && !/^(https:|http:|mailto:|#i-)/.test(element.getAttribute("href")))).map((element) => element.outerHTML)`);
  assert.deepEqual(found, []);
  assert.match(await page.evaluate(LAST_TEXT), /<script>alert\(1\)<\/script>/);
  assert.equal(await page.text(".bubble"), "<img src=x onerror=alert(2)>");
  assert.deepEqual(page.problems, []);
});

test("a full queue is waited for, and asked again by itself", async () => {
  const page = await openWith([error(429, "queue full", {"Retry-After": "1"}), [delta("There."), ...end()]]);
  await ask(page, "Hi");
  assert.equal(await ended(page), "done");
  assert.equal(await page.evaluate(LAST_TEXT), "There.");
  const asked = await page.evaluate("window.asked");
  assert.equal(asked.length, 2);
  assert.deepEqual(asked[0], asked[1]);
});

for (const [status, message, says, does] of [
  [400, "temperature: 3 is above 2", "temperature: 3 is above 2", "Settings"],
  [401, "no key", "Enter it in the settings", "Settings"],
  [503, "layer 4 expert 7 has no copy in service", "layer 4 expert 7 has no copy", "Look at the cluster"],
]) {
  test(`status ${status} is shown with what to do`, async () => {
    const page = await openWith([error(status, message), [delta("Better."), ...end()]]);
    await ask(page, "Hi");
    assert.equal(await ended(page), "failed");
    const problem = await page.text(".problem");
    assert.ok(problem.includes(says), problem);
    assert.ok(problem.includes(does), problem);
    await screenshot(page, `problem-${status}-light`);
    await page.click(".message.assistant .tools button[title='Answer again']");
    await page.until(`${LAST_STATE} === 'done'`, "the second try");
    assert.equal(await page.evaluate(LAST_TEXT), "Better.");
  });
}

test("an answer that was cut is asked for again, and goes on where it was", async () => {
  const page = await openWith([[delta("One two"), delta(" three")], [delta("One "), delta("two three four."), ...end()]]);
  await ask(page, "Count");
  await page.until(`${LAST_STATE} === 'done'`, "the whole answer");
  assert.equal(await page.evaluate(LAST_TEXT), "One two three four.");
  const asked = await page.evaluate("window.asked");
  assert.deepEqual(asked[0], asked[1]);
  assert.equal(asked[0].messages.length, 1);
});

test("an answer at its limit says so", async () => {
  const page = await openWith([[delta("Words"), ...end("length")]]);
  await ask(page, "Hi");
  await ended(page);
  assert.match(await page.text(".problem"), /limit of 4 tokens/);
});

test("conversations are found, renamed, exported, deleted and brought back", async () => {
  const page = await openWith([[delta("An answer about **herring**."), ...end()]]);
  await ask(page, "First question");
  await ended(page);
  await page.press("Alt+n");
  await ask(page, "Second question");
  await page.until("document.querySelectorAll('#conversations a').length === 2", "two conversations");
  await page.until("document.querySelectorAll('.message.assistant').length === 1", "the answer in the second");
  await ended(page);
  const titles = "[...document.querySelectorAll('#conversations a')].map((link) => link.textContent).join()";
  assert.equal(await page.evaluate(titles), "Second question,First question");
  const search = (text) => page.evaluate(`(() => {
    const field = document.querySelector("#search");
    field.value = ${JSON.stringify(text)};
    field.dispatchEvent(new Event("input"));
  })()`);
  await search("herring FIRST");
  assert.equal(await page.evaluate(titles), "First question");
  await search("");

  await page.evaluate("document.querySelectorAll('#conversations a')[1].focus()");
  await page.press("F2");
  await page.type("On herring");
  await page.press("Enter");
  await page.until(`${titles} === 'Second question,On herring'`, "the new title");
  await page.until("import('/store.js').then((store) => store.loadConversations()).then((all) => all[1].title === 'On herring')", "it kept");
  const [second, first] = await kept(page);
  const texts = await page.evaluate(`import("/export.js").then((files) => import("/store.js").then(async (store) => {
    const conversation = (await store.loadConversations())[1];
    return [files.toMarkdown(conversation), files.toJson(conversation), files.fileName(conversation, "md")];
  }))`);
  assert.equal(texts[0], "# On herring\n\n## You\n\nFirst question\n\n## Model\n\nAn answer about **herring**.\n");
  assert.deepEqual(JSON.parse(texts[1]), first);
  assert.equal(texts[2], "on-herring.md");

  await page.evaluate("document.querySelectorAll('#conversations a')[0].focus()");
  await page.press("Delete");
  await page.until(`${titles} === 'On herring'`, "one conversation");
  await page.until("import('/store.js').then((store) => store.loadConversations()).then((all) => all.length === 1)", "one kept");
  assert.deepEqual((await kept(page)).map(({id}) => id), [first.id]);
  await page.click("#toast .link");
  await page.until(`${titles} === 'Second question,On herring'`, "both again");
  await page.until("import('/store.js').then((store) => store.loadConversations()).then((all) => all.length === 2)", "both kept");
  assert.equal((await kept(page))[0].id, second.id);
  assert.deepEqual(page.problems, []);
});

test("keys reach everything, and the theme can be chosen", async () => {
  const page = await openWith([[delta("Yes."), ...end()]]);
  await page.press("Alt+2");
  await page.until("!document.querySelector('#cluster-view').hidden", "the cluster");
  await page.press("Alt+1");
  await page.until("!document.querySelector('#chat-view').hidden", "the chat");
  await page.evaluate("document.activeElement.blur()");
  await page.press("?");
  await page.until("document.querySelector('#keys').open", "the keys");
  await page.evaluate("document.querySelector('#keys').close()");
  await page.press("/");
  assert.equal(await page.evaluate("document.activeElement.id"), "prompt");
  await page.press("Control+k");
  assert.equal(await page.evaluate("document.activeElement.id"), "search");
  await page.click("#theme");
  assert.equal(await page.evaluate("document.documentElement.dataset.theme"), "dark");
  assert.equal(await page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(13, 20, 24)");
  await page.reload();
  await page.until("document.documentElement.dataset.theme === 'dark'", "the theme after a reload");
  const nameless = await page.evaluate(`[...document.querySelectorAll("button, input, textarea, a, canvas")].filter((element) =>
    (element.getAttribute("aria-label") ?? element.textContent ?? "").trim() === "").map((element) => element.outerHTML)`);
  assert.deepEqual(nameless, []);
});
