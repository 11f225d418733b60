// The official client against a live server, with its default settings.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import OpenAI from 'openai';

import { MODEL, startServer, until } from './server.mjs';

let server;
let client;

before(async () => {
  server = await startServer();
  client = new OpenAI({ baseURL: server.baseURL, apiKey: 'unused' });
});
after(() => server.stop());

const post = async (path, body) => (await fetch(server.root + path, {
  method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
})).json();
const user = (content) => ({ role: 'user', content });
const ghosts = {
  model: MODEL,
  messages: [user('Do you believe in ghosts?')],
  reasoning_effort: 'none',
};

test('models are listed and found by name', async () => {
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  assert.deepEqual(names, [MODEL]);
  const model = await client.models.retrieve(MODEL);
  assert.equal(model.object, 'model');
  await assert.rejects(client.models.retrieve('gpt-4'), OpenAI.NotFoundError);
});

test('a chat has every documented field with its type', async () => {
  const chat = await client.chat.completions.create({ ...ghosts, logprobs: true, top_logprobs: 2 });
  assert.match(chat.id, /^chatcmpl-/);
  assert.equal(chat.object, 'chat.completion');
  assert.ok(Math.abs(chat.created - Date.now() / 1000) < 600);
  assert.equal(chat.model, MODEL);
  assert.match(chat.system_fingerprint, /^fp_[0-9a-f]{12}_cpu-bf16$/);
  assert.match(chat._request_id, /^req_/);
  assert.equal(chat.choices.length, 1);
  const [choice] = chat.choices;
  assert.equal(choice.index, 0);
  assert.equal(choice.finish_reason, 'stop');
  assert.equal(choice.message.role, 'assistant');
  assert.ok(choice.message.content.length > 0);
  assert.equal(choice.message.refusal, null);
  assert.equal(choice.message.tool_calls, undefined);
  const tokens = choice.logprobs.content;
  assert.equal(tokens.map((token) => token.token).join(''), choice.message.content);
  for (const token of tokens) {
    assert.ok(token.logprob <= 0);
    assert.equal(token.top_logprobs.length, 2);
    assert.equal(Buffer.from(token.bytes).toString(), token.token);
    assert.equal(token.top_logprobs[0].token, token.token);  // greedy
  }
  assert.ok(chat.usage.prompt_tokens > 0);
  assert.ok(chat.usage.completion_tokens > tokens.length);  // and the structure
  assert.equal(chat.usage.total_tokens, chat.usage.prompt_tokens + chat.usage.completion_tokens);
  assert.equal(typeof chat.usage.prompt_tokens_details.cached_tokens, 'number');
});

test('the same question gets the same answer, streamed or not', async () => {
  const whole = await client.chat.completions.create(ghosts);
  const again = await client.chat.completions.create(ghosts);
  assert.equal(again.choices[0].message.content, whole.choices[0].message.content);
  const stream = await client.chat.completions.create(
    { ...ghosts, stream: true, stream_options: { include_usage: true } });
  let text = '';
  let usage;
  let reason;
  for await (const chunk of stream) {
    assert.equal(chunk.object, 'chat.completion.chunk');
    if (chunk.usage) usage = chunk.usage;
    text += chunk.choices[0]?.delta.content ?? '';
    reason = chunk.choices[0]?.finish_reason ?? reason;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(reason, 'stop');
  assert.deepEqual({ ...usage, prompt_tokens_details: undefined },
    { ...whole.usage, prompt_tokens_details: undefined });
});

test("the client's own stream helper puts the answer together", async () => {
  const whole = await client.chat.completions.create({ ...ghosts, reasoning_effort: 'high' });
  const final = await client.chat.completions.stream({ ...ghosts, reasoning_effort: 'high' }).finalChatCompletion();
  assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
  assert.equal(final.choices[0].finish_reason, whole.choices[0].finish_reason);
});

test('completions continue text, and seeds repeat', async () => {
  const request = { model: MODEL, prompt: 'It was a dark', max_tokens: 12, temperature: 1, seed: 3, n: 2 };
  const first = await client.completions.create(request);
  const second = await client.completions.create(request);
  assert.equal(first.object, 'text_completion');
  assert.equal(first.choices[0].finish_reason, 'length');
  assert.notEqual(first.choices[0].text, first.choices[1].text);
  assert.deepEqual(second.choices.map((choice) => choice.text), first.choices.map((choice) => choice.text));
  const stream = await client.completions.create({ ...request, stream: true });
  const texts = ['', ''];
  for await (const chunk of stream) texts[chunk.choices[0].index] += chunk.choices[0].text;
  assert.deepEqual(texts, first.choices.map((choice) => choice.text));
});

test('a text can be scored without generating', async () => {
  const scored = await client.completions.create(
    { model: MODEL, prompt: 'It was a dark and stormy night', max_tokens: 0, echo: true, logprobs: 0 });
  const { logprobs, text } = scored.choices[0];
  assert.equal(text, 'It was a dark and stormy night');
  assert.equal(logprobs.tokens.join(''), text);
  assert.equal(logprobs.token_logprobs[0], null);
  for (const score of logprobs.token_logprobs.slice(1)) assert.ok(score < 0);
  assert.equal(scored.usage.completion_tokens, 0);
});

test('stop ends the text before the string', async () => {
  const whole = await client.completions.create({ model: MODEL, prompt: 'It was a dark', max_tokens: 20 });
  const { text } = whole.choices[0];
  const stop = text.slice(10, 14);
  const cut = await client.completions.create({ model: MODEL, prompt: 'It was a dark', max_tokens: 20, stop });
  assert.equal(cut.choices[0].text, text.slice(0, text.indexOf(stop)));
  assert.equal(cut.choices[0].finish_reason, 'stop');
});

test('calls and results of tools are read as the model was taught', async () => {
  const messages = [
    user('What is the weather?'),
    { role: 'assistant', content: null, tool_calls: [
      { id: 'a', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } }] },
    { role: 'tool', tool_call_id: 'a', content: 'rain' },
  ];
  const tools = [{ type: 'function', function: {
    name: 'weather', description: 'Tells the weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }];
  const chat = await client.chat.completions.create({ model: MODEL, messages, tools, max_tokens: 3 });
  const counted = await post('/tokenize', { messages, tools });
  assert.equal(chat.usage.prompt_tokens, counted.count);
  const read = await post('/detokenize', { tokens: counted.tokens });
  assert.ok(read.prompt.includes('tool="weather" index="1"<|sep|>rain'));
});

test('an answer goes back into the conversation as it came', async () => {
  const first = await client.chat.completions.create(ghosts);
  const second = await client.chat.completions.create(
    { ...ghosts, messages: [...ghosts.messages, first.choices[0].message, user('Why?')] });
  assert.equal(second.choices[0].message.role, 'assistant');
});

test('a conversation that goes on says how much of it was not read again', async () => {
  const question = user('What does the sea sound like?');
  const first = await client.chat.completions.create({ ...ghosts, messages: [question] });
  const second = await client.chat.completions.create(
    { ...ghosts, messages: [question, first.choices[0].message, user('Why?')], max_tokens: 4 });
  const { prompt_tokens: all, prompt_tokens_details: { cached_tokens: cached } } = second.usage;
  assert.ok(cached >= first.usage.prompt_tokens, `${cached} of ${all}, the first prompt had ${first.usage.prompt_tokens}`);
  assert.ok(cached < all);
});

test('what is refused comes as the errors that the client knows', async () => {
  const bad = [
    [{ ...ghosts, top_p: 2 }, OpenAI.BadRequestError, 'top_p'],
    [{ ...ghosts, response_format: { type: 'grammar' } }, OpenAI.BadRequestError, 'response_format.type'],
    [{ ...ghosts, messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, OpenAI.BadRequestError, 'messages[0].content[0].type'],
    [{ ...ghosts, model: 'gpt-4' }, OpenAI.NotFoundError, 'model'],
  ];
  for (const [request, type, param] of bad) {
    await assert.rejects(client.chat.completions.create(request), (error) => {
      assert.ok(error instanceof type, String(error));
      assert.equal(error.param, param);
      assert.match(error.requestID, /^req_/);
      return true;
    });
  }
});

test('aborting a stream frees its place', async () => {
  const stream = await client.chat.completions.create({ ...ghosts, ignore_eos: true, stream: true });
  let chunks = 0;
  for await (const chunk of stream) {
    if (chunk && ++chunks === 3) break;  // aborts the request
  }
  assert.equal(chunks, 3);
  await until(async () => await server.metric('deltafin_running_requests') === 0, 'the place');
  assert.ok(await server.metric('deltafin_finished_requests_total{reason="cancelled"}') >= 1);
});

test('four conversations at once say what each says alone', async () => {
  const requests = ['Do you believe in ghosts?', 'Good morning.', 'Where is my hat?', 'Hello.'].map(
    (text) => ({ ...ghosts, messages: [user(text)] }));
  const alone = [];
  for (const request of requests) alone.push(await client.chat.completions.create(request));
  const together = await Promise.all(requests.map((request) => client.chat.completions.create(request)));
  assert.deepEqual(together.map((chat) => chat.choices[0].message.content),
    alone.map((chat) => chat.choices[0].message.content));
});
