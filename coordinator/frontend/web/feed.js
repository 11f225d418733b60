// What the server tells of the cluster, twice a second while somebody looks.
import {clusterEvents} from "./api.js";
import {connection} from "./connection.js";

const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 8000;

// Dispatches "cluster" and "heat" with `detail`, and "problem" with an ApiError where the feed broke.
class Feed extends EventTarget {
  lookers = new Set();
  last = null;
  controller = null;

  constructor() {
    super();
    document.addEventListener("visibilitychange", () => this.settle());
    connection.addEventListener("back", () => this.restart());
  }

  look(who) {
    this.lookers.add(who);
    this.settle();
  }

  leave(who) {
    this.lookers.delete(who);
    this.settle();
  }

  settle() {
    const wanted = this.lookers.size > 0 && document.visibilityState === "visible";
    if (wanted && this.controller === null) this.follow();
    if (!wanted && this.controller !== null) {
      this.controller.abort();
      this.controller = null;
    }
  }

  restart() {
    this.controller?.abort();
    this.controller = null;
    this.settle();
  }

  async follow() {
    const controller = new AbortController();
    this.controller = controller;
    let retry = FIRST_RETRY_MS;
    while (!controller.signal.aborted) {
      try {
        for await (const event of clusterEvents(controller.signal)) {
          retry = FIRST_RETRY_MS;
          this.take(event);
        }
      } catch (error) {
        if (controller.signal.aborted) return;
        this.dispatchEvent(new CustomEvent("problem", {detail: error}));
        if (error.kind === "gone" || error.kind === "cut") connection.lost();
      }
      await new Promise((resolve) => setTimeout(resolve, retry));
      retry = Math.min(2 * retry, LAST_RETRY_MS);
    }
  }

  take(event) {
    if (event.data === undefined) return;
    const detail = JSON.parse(event.data);
    if (event.event === "cluster") this.last = detail;
    this.dispatchEvent(new CustomEvent(event.event, {detail}));
  }
}

export const feed = new Feed();
