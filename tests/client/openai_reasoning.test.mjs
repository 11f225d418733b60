// The official client reads what the model thought, apart from what it said.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import OpenAI from 'openai';

import { MODEL, startScript } from './server.mjs';

const THOUGHT = 'They ask for the sea. I have seen it once.';
const TEXT = 'It was grey.';
const SCRIPT = `${THOUGHT}<|close|>think<|sep|><|open|>response<|sep|>${TEXT}<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>`;
const question = { role: 'user', content: 'What was the sea like?' };
const asking = { model: MODEL, messages: [question], reasoning_effort: 'high' };

let server;
let client;

before(async () => {
  server = await startScript(SCRIPT, SCRIPT);
  client = new OpenAI({ baseURL: server.baseURL, apiKey: 'unused' });
});
after(() => server.stop());

test('a chat thinks, streamed and whole', async () => {
  const whole = await client.chat.completions.create(asking);
  const [{ message, finish_reason: reason }] = whole.choices;
  assert.equal(message.reasoning_content, THOUGHT);
  assert.equal(message.content, TEXT);
  assert.equal(reason, 'stop');
  const { reasoning_tokens: thinking } = whole.usage.completion_tokens_details;
  assert.ok(thinking > 0 && thinking < whole.usage.completion_tokens, String(thinking));

  const seen = { reasoning_content: '', content: '' };
  for await (const chunk of await client.chat.completions.create({ ...asking, stream: true })) {
    const { delta } = chunk.choices[0];
    assert.ok(!(delta.content && delta.reasoning_content), 'one or the other');
    for (const part of Object.keys(seen)) seen[part] += delta[part] ?? '';
  }
  assert.deepEqual(seen, { reasoning_content: THOUGHT, content: TEXT });
});

test('what it thought can be sent back, and is cut off by max_tokens', async () => {
  const { choices: [{ message }] } = await client.chat.completions.create(asking);
  const next = await client.chat.completions.create(
    { ...asking, messages: [question, message, { role: 'user', content: 'Why?' }] });
  assert.equal(next.choices[0].message.content, TEXT);
  const cut = await client.chat.completions.create({ ...asking, max_completion_tokens: 3 });
  assert.equal(cut.choices[0].finish_reason, 'length');
  assert.equal(cut.choices[0].message.content, '');
  assert.ok(THOUGHT.startsWith(cut.choices[0].message.reasoning_content));
  assert.equal(cut.usage.completion_tokens_details.reasoning_tokens, 3);
});

test('a response thinks in an item of its own', async () => {
  const request = { model: MODEL, input: question.content, reasoning: { effort: 'high' } };
  const whole = await client.responses.create(request);
  assert.deepEqual(whole.output.map((item) => item.type), ['reasoning', 'message']);
  assert.equal(whole.output[0].content[0].text, THOUGHT);
  assert.equal(whole.output_text, TEXT);
  let thought = '';
  for await (const event of await client.responses.create({ ...request, stream: true })) {
    if (event.type === 'response.reasoning_text.delta') thought += event.delta;
  }
  assert.equal(thought, THOUGHT);
});

test('without effort there is no thought', async () => {
  const { choices: [{ message }] } = await client.chat.completions.create(
    { ...asking, reasoning_effort: 'none', max_tokens: 4 });
  assert.equal(message.reasoning_content, undefined);
  assert.ok(THOUGHT.startsWith(message.content) && message.content !== '');
});
