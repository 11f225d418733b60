// The transcripts of docs/http_errors.md are what a server answers.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { startServer } from './server.mjs';

const ADDRESS = '127.0.0.1:8080';  // as the page has it
const page = readFileSync(join(process.env.SOURCE_DIR, 'docs/http_errors.md'), 'utf8');
const sections = page.split(/^## /m).slice(1).filter((section) => section.includes('```console'));

// The commands of a section and what they print.
function commands(section) {
  const found = [];
  for (const [, block] of section.matchAll(/^```console\n([^]*?)^```$/gm)) {
    for (const line of block.trimEnd().split('\n')) {
      if (line.startsWith('$ ')) found.push({ command: line.slice(2), output: '' });
      else found.at(-1).output += `${line}\n`;
    }
  }
  return found;
}

let folder;
let server;
before(() => { folder = mkdtempSync(join(tmpdir(), 'deltafin-transcripts-')); });
after(() => {
  server?.kill();
  rmSync(folder, { recursive: true });
});

async function run(command) {
  if (command.startsWith('deltafin serve ')) {
    server?.kill();
    const flags = command.split(' ').slice(2);
    server = await startServer(flags.map((flag) => (flag === ADDRESS ? '127.0.0.1:0' : flag)), folder);
    return '';
  }
  const { stdout, error } = spawnSync('/bin/bash', ['-c', command.replaceAll(ADDRESS, new URL(server?.root ?? 'http://none').host)],
    { cwd: folder, encoding: 'utf8', timeout: 120000, stdio: ['ignore', 'pipe', 'inherit'] });
  assert.equal(error, undefined);
  return stdout;
}

for (const section of sections) {
  test(section.split('\n')[0], async () => {
    const all = commands(section);
    assert.ok(all.some(({ output }) => output !== ''), 'the section shows an answer');
    for (const { command, output } of all) assert.equal(await run(command), output, command);
  });
}

test('every code of the API is shown, or said not to be', () => {
  const api = readFileSync(join(process.env.SOURCE_DIR, 'docs/http_api.md'), 'utf8');
  const tables = [...api.matchAll(/^\| (4\d\d|5\d\d) \| (.*?) \|/gm)];
  assert.ok(tables.length > 15);
  for (const [, status, codes] of tables) {
    for (const [, code] of codes.matchAll(/`(\w+)`/g)) {
      assert.ok(page.includes(`"code":"${code}"`) || page.includes(`\`${code}\``), `${status} ${code}`);
    }
  }
});
