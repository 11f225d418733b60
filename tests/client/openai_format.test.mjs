// The official client asks a live server for JSON and for calls: what it gets
// satisfies the schema, however small the model is.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import OpenAI from 'openai';

import { MODEL, startServer } from './server.mjs';

let server;
let client;

before(async () => {
  server = await startServer();
  client = new OpenAI({ baseURL: server.baseURL, apiKey: 'unused' });
});
after(() => server.stop());

const ask = {
  model: MODEL,
  messages: [{ role: 'user', content: 'Tell me of a ghost.' }],
  reasoning_effort: 'none',
  max_tokens: 1500,
};
const ghost = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 2, maxLength: 12 },
    age: { type: 'integer', minimum: 100, maximum: 999 },
    mood: { enum: ['sad', 'glad', null] },
    rooms: { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 3 },
    friend: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/friend' }] },
  },
  required: ['name', 'age', 'mood', 'rooms', 'friend'],
  additionalProperties: false,
  $defs: {
    friend: {
      type: 'object', properties: { name: { const: 'Bo' } }, required: ['name'], additionalProperties: false,
    },
  },
};
const format = { type: 'json_schema', json_schema: { name: 'ghost', strict: true, schema: ghost } };
const tools = [
  { type: 'function', function: { name: 'haunt', parameters: {
    type: 'object',
    properties: { room: { type: 'string', minLength: 1, maxLength: 9 }, hour: { type: 'integer', minimum: 1, maximum: 12 } },
    required: ['room', 'hour'],
  } } },
  { type: 'function', function: { name: 'rest' } },
];

function checkGhost(text) {
  const value = JSON.parse(text);
  assert.deepEqual(Object.keys(value), ghost.required);
  assert.ok([...value.name].length >= 2 && [...value.name].length <= 12, value.name);
  assert.ok(Number.isInteger(value.age) && value.age >= 100 && value.age <= 999);
  assert.ok(['sad', 'glad', null].includes(value.mood));
  assert.ok(value.rooms.length >= 1 && value.rooms.length <= 3);
  assert.ok(value.rooms.every((room) => typeof room === 'boolean'));
  if (value.friend !== null) assert.deepEqual(value.friend, { name: 'Bo' });
}

function checkHaunt(call) {
  assert.equal(call.name, 'haunt');
  const value = JSON.parse(call.arguments);
  assert.deepEqual(Object.keys(value), ['room', 'hour']);
  assert.ok(value.room.length >= 1 && [...value.room].length <= 9);
  assert.ok(Number.isInteger(value.hour) && value.hour >= 1 && value.hour <= 12);
}

test('an answer satisfies its schema, greedy and drawn, whole and streamed', async () => {
  const greedy = await client.chat.completions.create({ ...ask, response_format: format });
  assert.equal(greedy.choices[0].finish_reason, 'stop');
  checkGhost(greedy.choices[0].message.content);
  const drawn = await client.chat.completions.create({ ...ask, response_format: format, temperature: 1.5, seed: 7, n: 4 });
  for (const choice of drawn.choices) checkGhost(choice.message.content);
  let text = '';
  const stream = await client.chat.completions.create({ ...ask, response_format: format, stream: true });
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
  assert.equal(text, greedy.choices[0].message.content);
  const parsed = await client.chat.completions.parse({ ...ask, response_format: format });
  assert.deepEqual(JSON.parse(parsed.choices[0].message.content), JSON.parse(text));
});

test('answers in company are those alone', async () => {
  const alone = [];
  const requests = [1, 2, 3].map((seed) => ({ ...ask, response_format: format, temperature: 1, seed }));
  for (const request of requests) alone.push((await client.chat.completions.create(request)).choices[0].message.content);
  const together = await Promise.all([...requests, { ...ask, max_tokens: 60 }].map((request) => client.chat.completions.create(request)));
  assert.deepEqual(together.slice(0, 3).map((answer) => answer.choices[0].message.content), alone);
});

test('any object will do, and thinking is free', async () => {
  const { choices: [{ message, finish_reason: reason }] } = await client.chat.completions.create({
    ...ask, reasoning_effort: 'low', max_tokens: 1500, response_format: { type: 'json_schema', json_schema: { name: 'yes', schema: { const: { yes: true } } } },
  });
  if (reason === 'stop') assert.deepEqual(JSON.parse(message.content), { yes: true });
  const object = await client.chat.completions.create({ ...ask, max_tokens: 200, response_format: { type: 'json_object' } });
  assert.equal(object.choices[0].message.content[0], '{');
  if (object.choices[0].finish_reason === 'stop') assert.equal(typeof JSON.parse(object.choices[0].message.content), 'object');
});

test('calls can be required, and follow the parameters', async () => {
  const required = await client.chat.completions.create({ ...ask, tools, tool_choice: 'required', parallel_tool_calls: false });
  assert.equal(required.choices[0].finish_reason, 'tool_calls');
  assert.equal(required.choices[0].message.content, null);
  assert.equal(required.choices[0].message.tool_calls.length, 1);
  assert.ok(['haunt', 'rest'].includes(required.choices[0].message.tool_calls[0].function.name));
  const named = await client.chat.completions.create({ ...ask, tools, tool_choice: { type: 'function', function: { name: 'haunt' } } });
  assert.equal(named.choices[0].message.tool_calls.length, 1);
  checkHaunt(named.choices[0].message.tool_calls[0].function);
});

test('responses do the same', async () => {
  const asking = { model: MODEL, input: 'Tell me of a ghost.', reasoning: { effort: 'none' }, max_output_tokens: 1500 };
  const flat = { type: 'json_schema', name: 'ghost', strict: true, schema: ghost };
  const answer = await client.responses.create({ ...asking, text: { format: flat } });
  assert.equal(answer.status, 'completed');
  checkGhost(answer.output_text);
  assert.equal(answer.text.format.type, 'json_schema');
  assert.deepEqual(answer.text.format.schema, ghost);
  const functions = tools.map((tool) => ({ type: 'function', ...tool.function }));
  const called = await client.responses.create({ ...asking, tools: functions, tool_choice: { type: 'function', name: 'haunt' } });
  const calls = called.output.filter((item) => item.type === 'function_call');
  assert.equal(calls.length, 1);
  checkHaunt(calls[0]);
});

test('a keyword that is not enforced is refused by its path', async () => {
  const schema = { type: 'object', properties: { a: { type: 'string', pattern: '(?=x)' } } };
  await assert.rejects(
    client.chat.completions.create({ ...ask, response_format: { type: 'json_schema', json_schema: { name: 'a', schema } } }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === 'response_format.json_schema.schema.properties.a.pattern');
});
