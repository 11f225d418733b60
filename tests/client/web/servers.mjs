// `deltafin serve --http` and nodes that join it, as processes.
import {spawn} from "node:child_process";
import {mkdtempSync, rmSync} from "node:fs";
import net from "node:net";
import {tmpdir} from "node:os";
import path from "node:path";

const PATIENCE_MS = 60000;

function need(name) {
  const value = process.env[name];
  if (value === undefined) throw new Error(`the environment variable ${name} is not set; run this by ctest`);
  return value;
}

// Waits until f() is truthy and returns that.
export async function until(f, what) {
  const begun = Date.now();
  while (true) {
    const value = await f();
    if (value) return value;
    if (Date.now() - begun > PATIENCE_MS) throw new Error(`In vain waited for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

class Program {
  constructor(file, args) {
    this.out = "";
    this.err = "";
    this.child = spawn(file, args, {stdio: ["ignore", "pipe", "pipe"]});
    this.child.stdout.on("data", (data) => { this.out += data; });
    this.child.stderr.on("data", (data) => { this.err += data; });
    this.ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.hasEnded = false;
    this.ended.then(() => { this.hasEnded = true; });
  }

  async line(pattern) {
    return until(() => {
      if (this.hasEnded) throw new Error(`it ended: ${this.err}`);
      return this.out.match(pattern);
    }, `${pattern} in the output`);
  }

  async kill(signal = "SIGKILL") {
    this.child.kill(signal);
    await this.ended;
  }
}

async function freePort() {
  const server = net.createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const {port} = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export class Cluster {
  // `nodeFlags`: of every node.
  static async start(numNodes, nodeFlags = []) {
    const cluster = new Cluster();
    cluster.dir = mkdtempSync(path.join(tmpdir(), "deltafin-web-"));
    cluster.nodeFlags = nodeFlags;
    cluster.nodes = [];
    cluster.nodePorts = [];
    [cluster.grpcPort, cluster.httpPort] = [await freePort(), await freePort()];
    cluster.url = `http://127.0.0.1:${cluster.httpPort}`;
    await cluster.startServer();
    for (let i = 0; i < numNodes; ++i) await cluster.startNode();
    await cluster.serving(numNodes);
    return cluster;
  }

  async startServer() {
    this.server = new Program(need("DELTAFIN"), [
      "serve", "--model", need("DELTAFIN_MODEL"), "--cluster", "--state", path.join(this.dir, "state"), "--threads", "1",
      "--listen", `127.0.0.1:${this.grpcPort}`, "--http", `127.0.0.1:${this.httpPort}`,
      "--heartbeat-ms", "500", "--gone-after-ms", "5000"]);
    await this.server.line(/listening on/);
  }

  // A new one, or one that was killed, which comes back at its address.
  async startNode(i = this.nodes.length) {
    this.nodePorts[i] ??= await freePort();
    this.nodes[i] = new Program(need("DELTAFIN_NODE"), [
      "--model", need("DELTAFIN_MODEL"), "--listen", `127.0.0.1:${this.nodePorts[i]}`, "--threads", "1", "--join", `127.0.0.1:${this.grpcPort}`,
      "--data", path.join(this.dir, `node${i}`), ...this.nodeFlags]);
  }

  async look() {
    return (await fetch(`${this.url}/api/cluster`)).json();
  }

  serving(count) {
    return until(async () => {
      const {nodes} = await this.look();
      return nodes.filter(({state}) => state === "serving").length === count;
    }, `${count} nodes in service`);
  }

  // What the API says to a question, whole.
  async answer(content, more = {}) {
    const response = await fetch(`${this.url}/v1/chat/completions`, {
      method: "POST", headers: {"Content-Type": "application/json"},
      body: JSON.stringify({model: "k3-nano", messages: [{role: "user", content}], temperature: 0, max_tokens: 1024, ...more})});
    const answer = await response.json();
    if (!response.ok) throw new Error(JSON.stringify(answer));
    return answer;
  }

  async stop() {
    await Promise.all([this.server, ...this.nodes].map((program) => program.kill()));
    rmSync(this.dir, {recursive: true, force: true, maxRetries: 5});
  }
}
