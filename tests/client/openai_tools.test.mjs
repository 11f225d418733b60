// The official client calls tools, in all its ways.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import OpenAI from 'openai';

import { MODEL, startScript } from './server.mjs';

const argument = (key, type, value) =>
  `<|open|>argument key="${key}" type="${type}"<|sep|>${value}<|close|>argument<|sep|>`;
const CALLS = 'One moment.<|close|>response<|sep|><|open|>tools<|sep|>'
  + `<|open|>call tool="weather" index="1"<|sep|>${argument('city', 'string', 'Os"lo')}${argument('days', 'number', '2')}<|close|>call<|sep|>`
  + `<|open|>call tool="time" index="2"<|sep|><|close|>call<|sep|>`
  + '<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>';
const ANSWER = 'It rains at noon.<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>';
const WEATHER_ARGUMENTS = '{"city": "Os\\"lo", "days": 2}';

const tools = ['weather', 'time'].map((name) => ({ type: 'function', function: { name, parameters: { type: 'object' } } }));
const question = { role: 'user', content: 'What is the weather?' };
const request = { model: MODEL, messages: [question], tools, reasoning_effort: 'none' };

let server;
let client;

before(async () => {
  server = await startScript(CALLS, ANSWER);
  client = new OpenAI({ baseURL: server.baseURL, apiKey: 'unused' });
});
after(() => server.stop());

function checkCalls(message) {
  assert.equal(message.content, 'One moment.');
  const [weather, time] = message.tool_calls;
  assert.equal(message.tool_calls.length, 2);
  assert.equal(weather.type, 'function');
  assert.equal(weather.function.name, 'weather');
  assert.equal(weather.function.arguments, WEATHER_ARGUMENTS);
  assert.deepEqual(JSON.parse(weather.function.arguments), { city: 'Os"lo', days: 2 });
  assert.equal(time.function.name, 'time');
  assert.equal(time.function.arguments, '{}');
  assert.notEqual(weather.id, time.id);
}

test('calls, results, answer', async () => {
  const first = await client.chat.completions.create(request);
  assert.equal(first.choices[0].finish_reason, 'tool_calls');
  const { message } = first.choices[0];
  checkCalls(message);
  const results = message.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: 'rain' }));
  const second = await client.chat.completions.create({ ...request, messages: [question, message, ...results] });
  assert.equal(second.choices[0].finish_reason, 'stop');
  assert.equal(second.choices[0].message.content, 'It rains at noon.');
  assert.equal(second.choices[0].message.tool_calls, undefined);
});

test('arguments stream as they are written', async () => {
  const pieces = [];
  const stream = client.chat.completions.stream(request);
  for await (const chunk of stream) {
    for (const call of chunk.choices[0]?.delta.tool_calls ?? []) {
      if (call.index === 0) pieces.push(call.function.arguments);
    }
  }
  assert.ok(pieces.length > 4, String(pieces));
  assert.equal(pieces.join(''), WEATHER_ARGUMENTS);
  const whole = await stream.finalChatCompletion();
  checkCalls(whole.choices[0].message);
  assert.equal(whole.choices[0].finish_reason, 'tool_calls');
});

test("the client's runner carries it through", async () => {
  const asked = [];
  const runner = client.chat.completions.runTools({
    model: MODEL,
    messages: [question],
    reasoning_effort: 'none',
    tools: ['weather', 'time'].map((name) => ({
      type: 'function',
      function: {
        name,
        parameters: { type: 'object' },
        function: (given) => { asked.push([name, given]); return 'rain'; },
      },
    })),
  });
  assert.equal(await runner.finalContent(), 'It rains at noon.');
  assert.deepEqual(asked, [['weather', WEATHER_ARGUMENTS], ['time', '{}']]);
});

test('an answer that is cut keeps the call as far as it came', async () => {
  const whole = await client.chat.completions.create(request);
  const cut = { ...request, max_tokens: whole.usage.completion_tokens - 30 };
  const answer = await client.chat.completions.create(cut);
  assert.equal(answer.choices[0].finish_reason, 'length');
  const streamed = await client.chat.completions.create({ ...cut, stream: true });
  const calls = [];
  for await (const chunk of streamed) {
    for (const call of chunk.choices[0]?.delta.tool_calls ?? []) {
      calls[call.index] = (calls[call.index] ?? '') + call.function.arguments;
    }
  }
  assert.deepEqual(calls, answer.choices[0].message.tool_calls.map((call) => call.function.arguments));
  assert.ok(WEATHER_ARGUMENTS.startsWith(calls[0]));
});

test('responses call functions, too', async () => {
  const functions = ['weather', 'time'].map((name) => ({ type: 'function', name, parameters: { type: 'object' }, strict: false }));
  const asking = { model: MODEL, input: 'What is the weather?', tools: functions, reasoning: { effort: 'none' } };
  const first = await client.responses.create(asking);
  assert.equal(first.status, 'completed');
  assert.equal(first.output_text, 'One moment.');
  const calls = first.output.filter((item) => item.type === 'function_call');
  assert.deepEqual(calls.map((call) => [call.name, call.arguments]), [['weather', WEATHER_ARGUMENTS], ['time', '{}']]);
  const input = [{ role: 'user', content: asking.input }, ...first.output,
    ...calls.map((call) => ({ type: 'function_call_output', call_id: call.call_id, output: 'rain' }))];
  const second = await client.responses.create({ ...asking, input });
  assert.equal(second.output_text, 'It rains at noon.');

  const kinds = [];
  const stream = client.responses.stream(asking);
  for await (const event of stream) kinds.push(event.type);
  assert.equal(kinds[0], 'response.created');
  assert.equal(kinds.at(-1), 'response.completed');
  assert.ok(kinds.includes('response.function_call_arguments.delta'));
  const streamed = await stream.finalResponse();
  assert.deepEqual(streamed.output.map((item) => [item.type, item.arguments]),
    first.output.map((item) => [item.type, item.arguments]));
});
