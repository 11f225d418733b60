// Conversations over HTTP: what is known is not computed again, and nothing of it shows in the text.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import OpenAI from 'openai';

import { MODEL, startServer } from './server.mjs';

const QUESTIONS = ['Do you believe in ghosts?', 'Why?', 'Tell me of the sea.', 'And the wind?', 'Who are you?',
  'Where do you live?', 'Is it cold there?', 'What do you eat?', 'Do you sleep?', 'Good night.'];

// Asks all questions in one conversation.
async function converse(flags) {
  const server = await startServer(flags);
  const client = new OpenAI({ baseURL: server.baseURL, apiKey: 'unused' });
  const messages = [];
  const usages = [];
  const texts = createHash('sha256');
  for (const question of QUESTIONS) {
    messages.push({ role: 'user', content: question });
    const answer = await client.chat.completions.create(
      { model: MODEL, messages, reasoning_effort: 'none', max_tokens: 60 });
    const [{ message, finish_reason: reason }] = answer.choices;
    assert.equal(reason, 'stop');  // so that the text has all that was drawn
    texts.update(JSON.stringify(message.content));
    messages.push({ role: 'assistant', content: message.content });
    usages.push(answer.usage);
  }
  const work = {
    prefill: await server.metric('deltafin_prefill_tokens_total'),
    cached: await server.metric('deltafin_cached_prompt_tokens_total'),
  };
  await server.stop();
  return { hash: texts.digest('hex'), usages, work };
}

const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);

test('a chat of ten turns computes what is new alone and says the same', async () => {
  const reused = await converse([]);
  const computed = await converse(['--prefix-cache', '0', '--speculate', 'off']);
  assert.equal(reused.hash, computed.hash);
  assert.equal(reused.usages.length, 10);

  // All that an earlier turn fed: its prompt and its answer but for the last token, which was drawn and never fed.
  let fed = 0;
  for (const usage of reused.usages) {
    assert.equal(usage.prompt_tokens_details.cached_tokens, fed);
    fed = usage.prompt_tokens + usage.completion_tokens - 1;
  }
  const prompts = sum(reused.usages.map((usage) => usage.prompt_tokens));
  const cached = sum(reused.usages.map((usage) => usage.prompt_tokens_details.cached_tokens));
  assert.deepEqual(reused.work, { prefill: prompts - cached, cached });

  assert.deepEqual(computed.work, { prefill: prompts, cached: 0 });
  for (const usage of computed.usages) assert.equal(usage.prompt_tokens_details.cached_tokens, 0);
});
