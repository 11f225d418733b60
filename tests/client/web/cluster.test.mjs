// The cluster view while a node dies under a generation.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {Browser} from "./browser.mjs";
import {LAST_STATE, ask, kept, screenshot} from "./person.mjs";
import {Cluster} from "./servers.mjs";

const SLOW = ["--test-reply-delay-us", "70000:3"];
const QUESTION = "What is the capital of France?";

let cluster;
let browser;

before(async () => {
  [cluster, browser] = await Promise.all([Cluster.start(2, SLOW), Browser.start(process.env.CHROMIUM)]);
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
});

const STATES = "[...document.querySelectorAll('.node-table tbody tr')].map((row) => row.dataset.state).join(' ')";

test("a killed node turns red, its work goes to the other, and the text is the undisturbed one", async () => {
  const undisturbed = await cluster.answer(QUESTION);
  const page = await browser.open(cluster.url);
  await ask(page, QUESTION);
  await page.until(`${LAST_STATE} === 'running'`, "the answer to begin");
  await page.press("Alt+2");
  await page.until(`${STATES} === 'serving serving'`, "both nodes in the table");
  await page.until("document.querySelector('.shares').hidden === false", "where the time goes");
  assert.match(await page.text(".sentence"), /% of a step/);
  await screenshot(page, "cluster-working-light");

  await cluster.nodes[0].kill();
  await page.until(`/suspect|gone/.test(${STATES})`, "the killed node to be in trouble");
  assert.equal(await page.evaluate(LAST_STATE), "running");
  await page.until(`/gone/.test(${STATES})`, "the killed node to be gone");
  const color = await page.evaluate("getComputedStyle(document.querySelector('tr[data-state=gone] .state')).color");
  assert.equal(color, "rgb(179, 38, 30)");
  assert.match(await page.text(".events"), /gone/);
  assert.match(await page.text(".verdict"), /gone/);
  await screenshot(page, "cluster-node-gone-light");

  await page.press("Alt+1");
  await page.until(`${LAST_STATE} === 'done'`, "the rest of the answer");
  assert.equal((await kept(page))[0].messages[1].content, undisturbed.choices[0].message.content);
  assert.deepEqual(page.problems, []);
});

test("a node that comes and goes is one line that counts", async () => {
  const page = await browser.open(`${cluster.url}/#/cluster`);
  const lines = "[...document.querySelectorAll('.events li')].map((line) => line.textContent)";
  const suspected = (more) => `${lines}.some((line) => /suspect.* was serving/.test(line)${more})`;
  await page.until(suspected(""), "the first time");
  await cluster.startNode(0);
  await page.until(`${STATES} === 'serving serving'`, "the node to come back");
  await cluster.nodes[0].kill();
  await page.until(suspected(" && /, 2 times since \\d+:\\d+/.test(line)"), "the second time");
  await page.evaluate("document.querySelector('.events').scrollIntoView()");
  await screenshot(page, "cluster-events-light");
  assert.deepEqual(page.problems, []);
});

test("the pictures of layers and experts have something to tell", async () => {
  const page = await browser.open(`${cluster.url}/#/cluster`);
  await page.until("/most often expert \\d+ of layer \\d+/.test(document.querySelector('#cluster-view').textContent)", "the heat");
  const label = await page.evaluate("document.querySelectorAll('canvas')[1].getAttribute('aria-label')");
  assert.match(label, /^Time of each node for its part of each layer\. Longest: .* at layer \d+\.$/);
  // Cells have colours: more than the ground's.
  const colors = await page.evaluate(`(() => {
    const canvas = document.querySelectorAll("canvas")[2];
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
    return seen.size;
  })()`);
  assert.ok(colors > 5, `${colors} colours`);
  assert.deepEqual(page.problems, []);
});

for (const scheme of ["light", "dark"]) {
  for (const [size, width, height] of [["wide", 1280, 900], ["phone", 320, 640]]) {
    test(`every view fits a ${size} screen, ${scheme}`, async () => {
      // A short answer will do.
      const script = `localStorage.setItem("deltafin.settings", '{"maxTokens": 5}')`;
      const page = await browser.open(cluster.url, {width, height, scheme, script});
      await page.until("document.querySelector('.welcome') !== null", "the welcome");
      const fits = async (name) => {
        await screenshot(page, `${name}-${size}-${scheme}`);
        const [content, window] = await page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]");
        assert.ok(content <= window, `${name}: ${content} px on a screen of ${window} px`);
      };
      await fits("welcome");
      await ask(page, QUESTION);
      await page.until(`${LAST_STATE} === 'done'`, "the answer");
      await fits("chat");
      await page.evaluate("location.hash = '#/cluster'");
      await page.until(`${STATES} !== ''`, "the nodes");
      await fits("cluster");
      await page.evaluate("document.querySelector('#cluster-view').scrollTop = 1e6");
      await page.until("/most often/.test(document.querySelector('#cluster-view').textContent)", "the heat");
      await fits("cluster-end");
      const ground = await page.evaluate("getComputedStyle(document.body).backgroundColor");
      assert.equal(ground, scheme === "light" ? "rgb(246, 245, 241)" : "rgb(13, 20, 24)");
      assert.deepEqual(page.problems, []);
    });
  }
}
