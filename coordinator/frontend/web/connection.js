// Watches whether the server is there, and says so in the banner.
import {isHealthy} from "./api.js";
import {byId, make} from "./dom.js";
import {clock} from "./format.js";

const ASK_EVERY_MS = 1500;

class Connection extends EventTarget {
  gone = false;
  since = 0;

  // Something failed for want of a server: asks until it is back, then dispatches "back".
  async lost() {
    if (this.gone) return;
    this.gone = true;
    this.since = Date.now();
    this.dispatchEvent(new Event("gone"));
    while (!await isHealthy()) {
      this.showGone();
      await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS));
    }
    this.gone = false;
    hideBanner();
    this.dispatchEvent(new Event("back"));
  }

  showGone() {
    const why = navigator.onLine === false ? "This device is offline." : "The server has not answered since " +
      `${clock(this.since)}. Start it again (deltafin serve --http) or check the network.`;
    showBanner(why, "Nothing is lost: conversations are in this browser, and the page goes on by itself.");
  }
}

export const connection = new Connection();

function showBanner(text, note) {
  const banner = byId("banner");
  if (!banner.hidden) return;  // it is an alert: said once
  banner.replaceChildren(make("div", {}, make("strong", {}, text), " ", make("span", {}, note)));
  banner.hidden = false;
}

function hideBanner() {
  byId("banner").hidden = true;
}
