// Conversations, kept in this browser (IndexedDB), and settings (localStorage). Nothing is kept on the server.
//
// Conversation: {id, title, named, created, updated, messages: [Message]}; `named`: the person chose the title.
// Message: {role: "user", content} or {role: "assistant", content, reasoning, state, problem, stats, request, stream}:
//   state   "running", "done", "stopped", "lost" (the connection broke), "failed"
//   request the settings that it was asked with, so that it can be asked again for the same text

const DATABASE = "deltafin";
const TABLE = "conversations";

let database = null;

function settle(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function table(mode) {
  if (database === null) {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE, {keyPath: "id"});
    database = await settle(opening);
    database.onversionchange = () => {
      database.close();
      database = null;
    };
  }
  return database.transaction(TABLE, mode).objectStore(TABLE);
}

// Newest first.
export async function loadConversations() {
  const all = await settle((await table("readonly")).getAll());
  return all.sort((a, b) => b.updated - a.updated);
}

// Resolves once it is on disk. Rejects with what to tell the person.
export async function saveConversation(conversation) {
  try {
    const store = await table("readwrite");
    store.put(structuredClone(conversation));
    await new Promise((resolve, reject) => {
      store.transaction.oncomplete = resolve;
      store.transaction.onabort = () => reject(store.transaction.error);
      store.transaction.onerror = () => reject(store.transaction.error);
    });
  } catch (error) {
    const full = error !== null && error.name === "QuotaExceededError";
    throw new Error(full ? "The browser's storage is full: export and delete old conversations. This one is not saved."
                         : "The browser does not let this page keep conversations (private window?). Export what you need.");
  }
}

export async function deleteConversation(id) {
  await settle((await table("readwrite")).delete(id));
}

// {used, quota} in bytes, or null where the browser does not say.
export async function storageUse() {
  if (navigator.storage?.estimate === undefined) return null;
  const {usage, quota} = await navigator.storage.estimate();
  return {used: usage ?? 0, quota: quota ?? 0};
}

export function newConversation() {
  const now = Date.now();
  return {id: crypto.randomUUID?.() ?? `${now}-${Math.random()}`, title: "New conversation", named: false,
          created: now, updated: now, messages: []};
}

// A title from the first words that the person wrote.
export function titleOf(text) {
  const words = text.trim().replace(/\s+/g, " ");
  if (words.length <= 60) return words;
  const cut = words.slice(0, 60);
  return `${cut.slice(0, Math.max(cut.lastIndexOf(" "), 30))}…`;
}

// Does every word stand somewhere in it?
export function matches(conversation, query) {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) return true;
  const text = [conversation.title, ...conversation.messages.map((message) => message.content)].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

export const DEFAULT_SETTINGS = Object.freeze({
  system: "", thinking: "", temperature: 0, topP: 1, seed: "", maxTokens: 1024, apiKey: "", theme: "",
});

const SETTINGS = "deltafin.settings";

export function loadSettings() {
  try {
    return {...DEFAULT_SETTINGS, ...JSON.parse(localStorage.getItem(SETTINGS) ?? "{}")};
  } catch {
    return {...DEFAULT_SETTINGS};
  }
}

export function saveSettings(settings) {
  try {
    localStorage.setItem(SETTINGS, JSON.stringify(settings));
  } catch {
    // They hold as long as the page is open.
  }
}
