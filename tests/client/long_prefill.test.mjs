// The official client waits for a prompt that takes 400 seconds to read, on a
// clock that runs faster: the server's and the client's limits alike.
import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';

import OpenAI from 'openai';

import { MODEL, startScript, until } from './server.mjs';

const PREFILL_SECONDS = 400;
const RATE = 50;
// What the client and the fetch of Node.js have where nobody sets them.
const DEFAULTS = { timeout: 600, headersTimeout: 300, bodyTimeout: 300 };

const END = '<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>';
const TEXT = 'It was worth the wait.';
const asking = { model: MODEL, reasoning_effort: 'none',
  messages: [{ role: 'user', content: 'Here is a long story, which I would like you to read to its end.' }] };

// Settings of a client whose limits pass as fast as the clock.
async function fastClient(baseURL) {
  await fetch('data:,');  // makes the dispatcher
  const { constructor: Agent } = globalThis[Symbol.for('undici.globalDispatcher.1')];
  const fast = (seconds) => seconds * 1000 / RATE;
  const dispatcher = new Agent({
    headersTimeout: fast(DEFAULTS.headersTimeout), bodyTimeout: fast(DEFAULTS.bodyTimeout) });
  return new OpenAI({ baseURL, apiKey: 'unused', maxRetries: 0, timeout: fast(DEFAULTS.timeout),
    fetchOptions: { dispatcher } });
}

// A server that says nothing after its headers.
async function startSilence() {
  const server = http.createServer((request, answer) => {
    answer.writeHead(200, { 'content-type': 'text/event-stream' });
    answer.flushHeaders();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    baseURL: `http://127.0.0.1:${server.address().port}/v1`,
    stop: () => { server.closeAllConnections(); server.close(); },
  };
}

async function streamedChat(client) {
  let text = '';
  for await (const chunk of await client.chat.completions.create({ ...asking, stream: true })) {
    text += chunk.choices[0]?.delta.content ?? '';
  }
  return text;
}

async function streamedResponse(client) {
  let text = '';
  const { messages: input, reasoning_effort: effort, model } = asking;
  for await (const event of await client.responses.create({ model, input, reasoning: { effort }, stream: true })) {
    if (event.type === 'response.output_text.delta') text += event.delta;
  }
  return text;
}

const wholeChat = async (client) => (await client.chat.completions.create(asking)).choices[0].message.content;

test('no client with its default limits gives up', async () => {
  const server = await startScript(TEXT + END, TEXT + END, PREFILL_SECONDS, RATE);
  const silence = await startSilence();
  const client = await fastClient(server.baseURL);
  const begun = await server.metric('scripted_clock_seconds');
  const impatient = assert.rejects(
    fastClient(silence.baseURL).then(streamedChat),
    'the limits mean nothing if a silent server does not run into them');
  const texts = await Promise.all([streamedChat(client), streamedResponse(client), wholeChat(client)]);
  assert.deepEqual(texts, [TEXT, TEXT, TEXT]);
  assert.ok(await server.metric('scripted_clock_seconds') - begun >= PREFILL_SECONDS);
  await impatient;
  silence.stop();
  await server.stop();
});

// By the machine's clock: no test waits for the end of this prompt.
test('a client that gives up while its prompt is read frees its place', async () => {
  const server = await startScript(TEXT + END, TEXT + END, PREFILL_SECONDS, 1);
  const client = new OpenAI({ baseURL: server.baseURL, apiKey: 'unused' });
  let cancelled = 0;
  for (const stream of [true, false]) {
    const controller = new AbortController();
    const answer = client.chat.completions.create({ ...asking, stream }, { signal: controller.signal });
    if (stream) await answer;  // headers come at once
    await until(async () => await server.metric('deltafin_running_requests') === 1, 'the prompt to be read');
    controller.abort();
    if (!stream) await assert.rejects(answer, OpenAI.APIUserAbortError);
    cancelled += 1;
    await until(async () => await server.metric('deltafin_running_requests') === 0, 'the place');
    assert.equal(await server.metric('deltafin_finished_requests_total{reason="cancelled"}'), cancelled);
  }
  await server.stop();
});
