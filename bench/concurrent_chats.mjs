// What a server makes of several chats at once: total tokens a second of four over HTTP together against one after the
// other, in one run, in turns (solo, together, together, solo). Fails unless every text is the same as alone.
//
//   node bench/concurrent_chats.mjs DELTAFIN [--chats N] [--tokens N] [--rounds N] [-- FLAGS OF deltafin serve]
import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';

const QUESTIONS = ['Do you believe in ghosts?', 'What does the sea sound like?', 'Tell me of your house.', 'Who was the captain?',
  'Why is the night dark?', 'What did the doctor say?', 'Where does the road go?', 'How old is the tree?'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { chats: { type: 'string', default: '4' }, tokens: { type: 'string', default: '200' }, rounds: { type: 'string', default: '3' } },
});
const [deltafin, ...flags] = positionals;
const [chats, tokens, rounds] = [values.chats, values.tokens, values.rounds].map(Number);
if (!deltafin || !(chats > 0) || !(tokens > 0) || !(rounds > 0)) {
  console.error('usage: node bench/concurrent_chats.mjs DELTAFIN [--chats N] [--tokens N] [--rounds N] [-- FLAGS]');
  process.exit(64);
}

// The server's URL, once it listens. Nothing is retained, so that no run gains by the one before.
function start() {
  const server = spawn(deltafin, ['serve', '--listen', '127.0.0.1:0', '--http', '127.0.0.1:0', '--prefix-cache', '0', ...flags],
    { stdio: ['ignore', 'pipe', 'ignore'] });
  process.on('exit', () => server.kill('SIGKILL'));
  return new Promise((resolve, reject) => {
    let out = '';
    server.stdout.on('data', (data) => {
      out += data;
      const found = /HTTP API at (\S+)\n/.exec(out);
      if (found) resolve(found[1]);
    });
    server.on('exit', (code) => reject(new Error(`deltafin serve ended with ${code}`)));
  });
}

const url = await start();
const model = (await (await fetch(`${url}/models`)).json()).data[0].id;

async function chat(index) {
  const question = QUESTIONS[index % QUESTIONS.length] + (index < QUESTIONS.length ? '' : ` (${index})`);
  const answer = await fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({
      model, messages: [{ role: 'user', content: question }], max_tokens: tokens, ignore_eos: true, temperature: 0.8, seed: index,
    }),
  });
  const body = await answer.json();
  if (body.error || body.usage.completion_tokens !== tokens) throw new Error(JSON.stringify(body));
  return JSON.stringify(body.choices[0].message);
}

const indices = [...Array(chats).keys()];
const ways = {
  solo: async () => {
    const texts = [];
    for (const index of indices) texts.push(await chat(index));
    return texts;
  },
  together: () => Promise.all(indices.map(chat)),
};
const seconds = { solo: 0, together: 0 };
const expected = await ways.solo();  // warms up, too
for (let round = 0; round < rounds; ++round) {
  for (const way of ['solo', 'together', 'together', 'solo']) {
    const begin = performance.now();
    const texts = await ways[way]();
    seconds[way] += (performance.now() - begin) / 1000;
    const different = texts.findIndex((text, index) => text !== expected[index]);
    if (different >= 0) throw new Error(`chat ${different} ${way}: ${texts[different]}, alone it was ${expected[different]}`);
  }
}
const rate = (way) => (2 * rounds * chats * tokens) / seconds[way];
console.log(`${chats} chats, ${tokens} tokens each: one after the other ${rate('solo').toFixed(1)} tokens/s, together ` +
  `${rate('together').toFixed(1)}, ratio ${(rate('together') / rate('solo')).toFixed(2)}; ${chats} texts equal`);
process.exit(0);
