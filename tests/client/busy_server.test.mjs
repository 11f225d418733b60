// What the official client does when the server is full or wants a key.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import OpenAI from 'openai';

import { MODEL, startServer, until } from './server.mjs';

// Longer than any of these tests, drawn without guesses ahead.
const endless = { model: MODEL, prompt: 'It was a dark', max_tokens: 32000, ignore_eos: true, temperature: 1, stream: true };
const slow = ['--max-sequences', '1', '--max-queued', '1', '--context', '32768', '--speculate', 'off'];
const short = { model: MODEL, prompt: 'It was a dark', max_tokens: 2 };

test('a full queue makes the client come again', async () => {
  const server = await startServer(slow);
  const client = new OpenAI({ baseURL: server.baseURL, apiKey: 'unused' });
  const running = await client.completions.create(endless);
  await until(async () => await server.metric('deltafin_running_requests') === 1, 'the first to run');
  const waiting = await client.completions.create(endless);
  let refused = 0;
  const counting = new OpenAI({
    baseURL: server.baseURL,
    apiKey: 'unused',
    maxRetries: 30,  // a machine that is busy itself takes a while to free the place
    fetch: async (...given) => {
      const answer = await fetch(...given);
      if (answer.status === 429) {
        refused += 1;
        assert.equal(answer.headers.get('retry-after'), '1');
        running.controller.abort();
        waiting.controller.abort();
      }
      return answer;
    },
  });
  const late = await counting.completions.create(short);
  assert.ok(refused >= 1);
  assert.equal(late.usage.completion_tokens, 2);

  const impatient = new OpenAI({ baseURL: server.baseURL, apiKey: 'unused', maxRetries: 0 });
  const first = await client.completions.create(endless);
  await until(async () => await server.metric('deltafin_running_requests') === 1, 'the place to be taken');
  const second = await client.completions.create(endless);
  await assert.rejects(impatient.completions.create(short), OpenAI.RateLimitError);
  first.controller.abort();
  second.controller.abort();
  await server.stop();
});

test('keys let in those who have one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'deltafin-keys-'));
  const file = join(folder, 'keys');
  writeFileSync(file, 'sk-0123456789abcdef\n');
  chmodSync(file, 0o600);
  const server = await startServer(['--api-key-file', file]);
  const good = new OpenAI({ baseURL: server.baseURL, apiKey: 'sk-0123456789abcdef' });
  assert.equal((await good.completions.create(short)).usage.completion_tokens, 2);
  const bad = new OpenAI({ baseURL: server.baseURL, apiKey: 'sk-0123456789abcdeX' });
  await assert.rejects(bad.completions.create(short), OpenAI.AuthenticationError);
  assert.equal((await fetch(`${server.root}/healthz`)).status, 200);
  assert.equal((await fetch(`${server.root}/metrics`)).status, 401);
  await server.stop();
  rmSync(folder, { recursive: true });
});
