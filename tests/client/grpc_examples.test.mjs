// The examples of docs/examples against a live server: they say what the HTTP API says.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { MODEL, startServer } from './server.mjs';

const QUESTIONS = ['Do you believe in ghosts?', 'Why?'];
const PLUGIN = '/usr/bin/grpc_python_plugin';
const python = '/usr/bin/python3';
const source = process.env.SOURCE_DIR;

let server;
let expected;
before(async () => {
  server = await startServer();
  const messages = [];
  expected = [MODEL];
  let fed = 0;
  for (const content of QUESTIONS) {
    messages.push({ role: 'user', content });
    const answer = await (await fetch(`${server.root}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ model: MODEL, messages, reasoning_effort: 'none', max_tokens: 64 }),
    })).json();
    const { message } = answer.choices[0];
    const { prompt_tokens: read, completion_tokens: written } = answer.usage;
    messages.push({ role: 'assistant', content: message.content });
    expected.push(message.content, [read, fed, written]);
    fed = read + written - 1;
  }
});
after(() => server.stop());

// Of what the examples print; how much was known depends on who asked before.
function check({ stdout, stderr, status }) {
  assert.equal(status, 0, stderr);
  const lines = stdout.trimEnd().split('\n');
  assert.equal(lines.length, expected.length, stdout);
  for (const [i, line] of lines.entries()) {
    if (typeof expected[i] === 'string') {
      assert.equal(line, expected[i]);
      continue;
    }
    const [read, known, written] = /^\[(\d+) tokens read, (\d+) of them known, (\d+) written\]$/.exec(line).slice(1).map(Number);
    assert.deepEqual([read, written], [expected[i][0], expected[i][2]]);
    assert.ok(known >= expected[i][1] && known < read, line);
  }
}

const run = (program, args, env) => spawnSync(program, args, { encoding: 'utf8', timeout: 120000, env: { ...process.env, ...env } });

test('the one in C++', () => {
  check(run(process.env.GRPC_EXAMPLE, [server.grpc, ...QUESTIONS]));
  const refused = run(process.env.GRPC_EXAMPLE, [server.grpc, 'word '.repeat(9000)]);
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /error 3: /);  // INVALID_ARGUMENT
});

test('the one in Python', (t) => {
  if (run(python, ['-c', 'import grpc, google.protobuf']).status !== 0) return t.skip('needs python3-grpcio');
  if (!existsSync(PLUGIN)) return t.skip('needs protobuf-compiler-grpc');
  const out = mkdtempSync(join(tmpdir(), 'deltafin-example-'));
  const made = run('protoc', ['-I', source, `--python_out=${out}`, `--grpc_out=${out}`,
    `--plugin=protoc-gen-grpc=${PLUGIN}`, 'proto/inference.proto']);
  assert.equal(made.status, 0, made.stderr);
  const ask = (questions) => run(python, [join(source, 'docs/examples/chat.py'), server.grpc, ...questions], { PYTHONPATH: out });
  check(ask(QUESTIONS));
  const refused = ask(['word '.repeat(9000)]);
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /INVALID_ARGUMENT/);
  rmSync(out, { recursive: true });
});
