// `deltafin serve --http` as a child process of a test.
import { spawn } from 'node:child_process';

export const MODEL = 'k3-nano';

// Starts the program named by the environment (DELTAFIN) with further flags.
// Resolves when it listens, with its base URL and a way to stop it.
export async function startServer(flags = []) {
  const child = spawn(
    process.env.DELTAFIN,
    ['serve', '--listen', '127.0.0.1:0', '--http', '127.0.0.1:0', '--threads', '2', ...flags],
    { stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  let err = '';
  child.stderr.on('data', (data) => { err += data; });
  const baseURL = await new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => {
      out += data;
      const found = /HTTP API at (\S+)\n[^]*listening on/.exec(out);
      if (found) resolve(found[1]);
    });
    child.on('exit', (code) => reject(new Error(`deltafin ended with ${code}: ${err}`)));
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

// Waits until `condition` holds.
export async function until(condition, what) {
  const end = Date.now() + 60000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
