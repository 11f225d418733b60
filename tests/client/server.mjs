// Servers as child processes of a test.
import { spawn } from 'node:child_process';

export const MODEL = 'k3-nano';

// Starts a program that prints where its API is. Resolves when it listens, with
// its base URL and a way to stop it.
async function start(program, args, stdin) {
  const child = spawn(program, args, { stdio: [stdin, 'pipe', 'pipe'] });
  let out = '';
  let err = '';
  child.stderr.on('data', (data) => { err += data; });
  const baseURL = await new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => {
      out += data;
      const found = /HTTP API at (\S+)\n[^]*listening on/.exec(out);
      if (found) resolve(found[1]);
    });
    child.on('exit', (code) => reject(new Error(`${program} ended with ${code}: ${err}`)));
  });
  const root = baseURL.replace(/\/v1$/, '');
  return {
    baseURL,
    root,
    stop: () => new Promise((resolve) => {
      child.removeAllListeners('exit');
      child.on('exit', resolve);
      child.kill('SIGTERM');
    }),
    // The value of a metric, by its name and labels as the page has them.
    metric: async (name) => {
      const page = await (await fetch(`${root}/metrics`)).text();
      const line = page.split('\n').find((text) => text.startsWith(`${name} `));
      return line === undefined ? undefined : Number(line.split(' ').at(-1));
    },
  };
}

// `deltafin serve --http` with further flags.
export const startServer = (flags = []) => start(
  process.env.DELTAFIN,
  ['serve', '--model', process.env.MODEL_DIR, '--listen', '127.0.0.1:0', '--http', '127.0.0.1:0', '--threads', '2', ...flags],
  'ignore');

// scripted_server.cc: answers with `calls`, or `answer` once tools have answered.
export const startScript = (calls, answer) => start(
  process.env.SCRIPTED_SERVER, [process.env.MODEL_DIR, calls, answer], 'pipe');

// Waits until `condition` holds.
export async function until(condition, what) {
  const end = Date.now() + 60000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
