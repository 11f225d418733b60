// Puts the page together: views by the address, theme, keys.
import {getJson} from "./api.js";
import {ChatView} from "./chat_view.js";
import {ClusterView} from "./cluster_view.js";
import {connection} from "./connection.js";
import {byId, iconButton, make, toast} from "./dom.js";
import {Pulse} from "./pulse.js";
import {openSettings} from "./settings.js";
import {Sidebar} from "./sidebar.js";
import {loadConversations, loadSettings, newConversation, saveSettings} from "./store.js";

const KEYS = [["Enter", "Send"], ["Shift Enter", "New line"], ["Esc", "Stop the answer, close what is open"],
              ["/", "To the message"], ["Ctrl K", "Search conversations"], ["Alt N", "New conversation"],
              ["Alt 1", "Chat"], ["Alt 2", "Cluster"], ["Alt ,", "Settings"],
              ["↑ ↓ F2 Del", "In the list: move, rename, delete"], ["?", "This list"]];

let conversations = [];
let sidebar = null;
let chat = null;
let cluster = null;
let pulse = null;
let modelName = "";

// "", "light", "dark"; empty follows the system.
function applyTheme() {
  const {theme} = loadSettings();
  if (theme === "") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const names = {"": "as the system", light: "light", dark: "dark"};
  byId("theme").setAttribute("aria-label", `Theme: ${names[theme]}`);
  byId("theme").title = `Theme: ${names[theme]}`;
  cluster?.redraw();
}

function nextTheme() {
  const settings = loadSettings();
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order = isDark ? ["", "light", "dark"] : ["", "dark", "light"];
  settings.theme = order[(order.indexOf(settings.theme) + 1) % order.length];
  saveSettings(settings);
  applyTheme();
}

function showSidebar(open) {
  document.body.classList.toggle("sidebar-open", open);
  byId("scrim").hidden = !open;
  if (open) byId("search").focus();
}

function markCurrent(link, isCurrent) {
  if (isCurrent) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}

// The address says what is shown: #/chat, #/chat/ID, #/cluster.
function route() {
  const [, view, id] = location.hash.split("/");
  const isCluster = view === "cluster";
  byId("chat-view").hidden = isCluster;
  byId("cluster-view").hidden = !isCluster;
  markCurrent(byId("to-chat"), !isCluster);
  markCurrent(byId("to-cluster"), isCluster);
  showSidebar(false);
  if (isCluster) {
    cluster.open();
    byId("title").textContent = "Cluster";
    document.title = "Cluster · deltafin";
    return;
  }
  cluster.close();
  openConversation(id);
}

function openConversation(id) {
  let conversation = conversations.find((one) => one.id === id);
  if (conversation === undefined) {
    if (id !== undefined) history.replaceState(null, "", "#/chat");
    conversation = chat.conversation.messages.length === 0 ? chat.conversation : newConversation();
  }
  chat.show(conversation);
  showTitle();
  sidebar.setCurrent(conversation);
  if (matchMedia("(hover: hover)").matches) byId("prompt").focus();
}

function showTitle() {
  if (!byId("cluster-view").hidden) return;
  const {title, messages} = chat.conversation;
  byId("title").textContent = messages.length === 0 ? "New conversation" : title;
  document.title = messages.length === 0 ? "deltafin" : `${title} · deltafin`;
}

function newChat() {
  if (location.hash === "#/chat") route();
  else location.hash = "#/chat";
  if (chat.conversation.messages.length > 0) openConversation(undefined);
  byId("prompt").focus();
}

function changed(conversation) {
  sidebar.touch(conversation);
  if (conversation !== chat.conversation) return;
  showTitle();
  const hash = `#/chat/${conversation.id}`;
  if (location.hash !== hash && byId("cluster-view").hidden) {
    history.replaceState(null, "", hash);
    sidebar.setCurrent(conversation);
  }
}

function showKeys() {
  const dialog = byId("keys");
  const rows = KEYS.map(([keys, what]) => make("div", {},
    make("dt", {}, keys.split(" ").map((key) => make("kbd", {}, key))), make("dd", {}, what)));
  dialog.replaceChildren(make("form", {method: "dialog"},
    make("header", {}, make("h2", {id: "keys-title", tabindex: "-1", autofocus: true}, "Keys"),
         iconButton("close", "Close", () => dialog.close())),
    make("dl", {}, rows)));
  if (!dialog.open) dialog.showModal();
}

function onKey(event) {
  if (event.defaultPrevented || document.querySelector("dialog[open]") !== null) return;
  const writes = event.target.closest?.("input, textarea, select") !== null;
  const key = event.key.toLowerCase();
  const chord = (event.ctrlKey || event.metaKey ? "ctrl " : "") + (event.altKey ? "alt " : "") + key;
  const actions = {
    "escape": () => (chat.busy ? chat.stop() : showSidebar(false)),
    "ctrl k": () => { showSidebar(true); byId("search").select(); },
    "alt n": newChat,
    "alt 1": () => { location.hash = `#/chat/${chat.conversation.messages.length > 0 ? chat.conversation.id : ""}`.replace(/\/$/, ""); },
    "alt 2": () => { location.hash = "#/cluster"; },
    "alt ,": settings,
    ...(writes ? {} : {"/": () => byId("prompt").focus(), "?": showKeys}),
  };
  const action = actions[chord];
  if (action === undefined) return;
  event.preventDefault();
  action();
}

function settings() {
  openSettings(() => pulse.refresh());
}

// What the server calls its model; asked for once.
async function model() {
  if (modelName === "") modelName = (await getJson("/v1/models")).data[0].id;
  byId("model").textContent = modelName;
  byId("model").hidden = false;
  return modelName;
}

async function showModel() {
  modelName = "";  // another server may be back
  try {
    await model();
  } catch (error) {
    if (error.kind === "gone") connection.lost();
    else toast(error.message, {label: "Settings", run: settings});
  }
}

async function start() {
  try {
    conversations = await loadConversations();
  } catch {
    toast("This browser does not keep conversations (private window?).");
  }
  chat = new ChatView({changed, settings, model, busy: (busy) => pulse?.setBusy(busy)});
  cluster = new ClusterView(byId("cluster-view"));
  pulse = new Pulse(byId("pulse"), cluster);
  sidebar = new Sidebar(conversations, {
    renamed: () => showTitle(),
    removed: (conversation) => { if (conversation === chat.conversation) newChat(); },
  });
  applyTheme();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
  byId("theme").addEventListener("click", nextTheme);
  byId("open-settings").addEventListener("click", settings);
  byId("new-chat").addEventListener("click", newChat);
  byId("open-sidebar").addEventListener("click", () => showSidebar(true));
  byId("close-sidebar").addEventListener("click", () => showSidebar(false));
  byId("scrim").addEventListener("click", () => showSidebar(false));
  addEventListener("hashchange", route);
  addEventListener("keydown", onKey);
  connection.addEventListener("back", showModel);
  route();
  showModel();
}

start();
