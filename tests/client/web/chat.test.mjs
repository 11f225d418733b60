// The chat of the page against a real coordinator and two real nodes.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {Browser} from "./browser.mjs";
import {LAST_STATE, LAST_TEXT, ask, ended, kept, screenshot, words} from "./person.mjs";
import {Cluster, until} from "./servers.mjs";

// Slow enough that something can happen within an answer.
const SLOW = ["--test-reply-delay-us", "12000:7"];
const QUESTION = "What is the capital of France?";

let cluster;
let browser;
let full;  // the API's answer to QUESTION

before(async () => {
  [cluster, browser] = await Promise.all([Cluster.start(2, SLOW), Browser.start(process.env.CHROMIUM)]);
  full = await cluster.answer(QUESTION);
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
});

test("a turn shows the API's answer, counts it and keeps it over a reload", async () => {
  const page = await browser.open(cluster.url);
  await ask(page, QUESTION);
  assert.equal(await ended(page), "done");
  const text = full.choices[0].message.content;
  assert.ok(text.length > 10);
  assert.deepEqual(words(await page.evaluate(LAST_TEXT)), words(text));
  const [conversation] = await kept(page);
  assert.equal(conversation.messages[1].content, text);
  assert.equal(conversation.messages[1].stats.tokens, full.usage.completion_tokens);
  assert.match(await page.text(".message.assistant .stats"), /first token .* · \d+ tokens/);

  await page.reload();
  await page.until(`${LAST_STATE} === 'done'`, "the conversation after a reload");
  assert.deepEqual(words(await page.evaluate(LAST_TEXT)), words(text));
  assert.equal(await page.text("#conversations a"), QUESTION);
  assert.deepEqual(page.problems, []);
});

test("a stopped answer frees its place, and resumed it is the undisturbed one", async () => {
  const page = await browser.open(cluster.url);
  await ask(page, QUESTION);
  await page.until(`${LAST_TEXT}.length > 3`, "the first words");
  await page.press("Escape");
  assert.equal(await ended(page), "stopped");
  await until(async () => (await cluster.look()).engine.running === 0, "the place to be free");
  const part = (await kept(page))[0].messages[1].content;
  const text = full.choices[0].message.content;
  assert.ok(part.length < text.length && text.startsWith(part), part);
  await page.click(".problem .primary");
  await page.until(`${LAST_STATE} === 'done'`, "the rest");
  assert.equal((await kept(page))[0].messages[1].content, text);
  assert.deepEqual(page.problems, []);
});

test("the second turn is answered to the whole conversation", async () => {
  const page = await browser.open(cluster.url);
  await ask(page, QUESTION);
  assert.equal(await ended(page), "done");
  await ask(page, "Why?");
  await page.until("document.querySelectorAll('.message.assistant').length === 2", "the second answer");
  assert.equal(await ended(page), "done");
  const messages = [{role: "user", content: QUESTION}, {role: "assistant", content: full.choices[0].message.content},
                    {role: "user", content: "Why?"}];
  const again = await cluster.answer("", {messages});
  assert.equal((await kept(page))[0].messages[3].content, again.choices[0].message.content);
});

test("settings reach the server and are kept", async () => {
  const page = await browser.open(cluster.url);
  await page.until("!document.querySelector('#model').hidden", "the page to take keys");
  await page.press("Alt+,");
  await page.until("document.querySelector('#settings').open", "the settings");
  await screenshot(page, "settings-light");
  await page.evaluate(`(() => {
    const set = (id, value) => { const field = document.getElementById(id); field.value = value; field.dispatchEvent(new Event("input")); };
    set("set-temperature", "0.9"); set("set-seed", "11"); set("set-max-tokens", "6"); set("set-thinking", "none");
    set("set-system", "You are brief.");
  })()`);
  await page.click("#settings footer .primary");
  await page.until("localStorage.getItem('deltafin.settings')?.includes('You are brief.')", "the settings to be kept");
  await page.reload();
  await ask(page, QUESTION);
  await ended(page);
  const wanted = await cluster.answer("", {
    messages: [{role: "system", content: "You are brief."}, {role: "user", content: QUESTION}],
    temperature: 0.9, seed: 11, max_tokens: 6, reasoning_effort: "none"});
  const [conversation] = await kept(page);
  assert.equal(conversation.messages[1].content, wanted.choices[0].message.content);
  assert.equal(conversation.messages[1].stats.finish, wanted.choices[0].finish_reason);
  assert.deepEqual(page.problems, []);
});

test("a server that dies is told of, and the answer goes on when it is back", async () => {
  const page = await browser.open(cluster.url);
  await ask(page, QUESTION);
  await page.until(`${LAST_TEXT}.length > 3`, "the first words");
  await cluster.server.kill();
  await page.until("!document.querySelector('#banner').hidden", "the banner");
  assert.match(await page.text("#banner"), /The server has not answered since/);
  await page.until(`${LAST_STATE} === 'lost'`, "the answer to be lost");
  await screenshot(page, "server-gone-light");
  await cluster.startServer();
  await cluster.serving(2);
  await page.until("document.querySelector('#banner').hidden", "the banner to go");
  await page.until(`${LAST_STATE} === 'failed' || ${LAST_STATE} === 'done'`, "the end of the answer");
  if (await page.evaluate(LAST_STATE) === "failed") {
    // The server was back before its nodes.
    await page.click(".problem .actions button");
    await page.until(`${LAST_STATE} === 'done'`, "the answer asked again");
  }
  assert.equal((await kept(page))[0].messages[1].content, full.choices[0].message.content);
});
