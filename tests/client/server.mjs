// Servers as child processes of a test.
import { spawn } from 'node:child_process';

export const MODEL = 'k3-nano';

// Starts a program that prints where its API is. Resolves when it listens, with
// its addresses and ways to end it.
async function start(program, args, stdin, cwd) {
  const child = spawn(program, args, { stdio: [stdin, 'pipe', 'pipe'], cwd });
  let out = '';
  let err = '';
  child.stderr.on('data', (data) => { err += data; });
  const [baseURL, grpc] = await new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => {
      out += data;
      const found = /HTTP API at (\S+)\n[^]*listening on (\S+).*\n/.exec(out);
      if (found) resolve(found.slice(1));
    });
    child.on('exit', (code) => reject(new Error(`${program} ended with ${code}: ${err}`)));
  });
  const root = baseURL.replace(/\/v1$/, '');
  return {
    baseURL,
    root,
    grpc,  // HOST:PORT
    kill: () => {
      child.removeAllListeners('exit');
      child.kill('SIGKILL');
    },
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

// `deltafin serve --http` with further flags, in a folder.
export const startServer = (flags = [], folder = undefined) => start(
  process.env.DELTAFIN,
  ['serve', '--model', process.env.MODEL_DIR, '--listen', '127.0.0.1:0', '--threads', '2',
    ...(flags.includes('--http') ? [] : ['--http', '127.0.0.1:0']), ...flags],
  'ignore', folder);

// scripted_server.cc: answers with `calls`, or `answer` once tools have answered. Reading a
// prompt takes so many seconds of a clock that runs faster by a factor.
export const startScript = (calls, answer, prefillSeconds = 0, clockRate = 1) => start(
  process.env.SCRIPTED_SERVER,
  [process.env.MODEL_DIR, calls, answer, String(prefillSeconds), String(clockRate)], 'pipe');

// Waits until `condition` holds.
export async function until(condition, what) {
  const end = Date.now() + 60000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
