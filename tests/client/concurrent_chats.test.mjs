// The bench of concurrent chats runs, and finds every text equal to its solo run.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

test('four chats together say what each says alone', () => {
  const { stdout, stderr, status } = spawnSync(process.execPath,
    [join(process.env.SOURCE_DIR, 'bench/concurrent_chats.mjs'), process.env.DELTAFIN, '--tokens', '24', '--rounds', '1',
      '--', '--model', process.env.MODEL_DIR, '--threads', '1'],
    { encoding: 'utf8', timeout: 200000 });
  assert.equal(status, 0, stderr);
  const found = /^4 chats, 24 tokens each: one after the other [\d.]+ tokens\/s, together [\d.]+, ratio [\d.]+; 4 texts equal$/m.exec(stdout);
  assert.ok(found, stdout);
});
