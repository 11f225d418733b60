// What a person does on the page, and what the page keeps.
import path from "node:path";

export async function ask(page, text) {
  await page.until("document.querySelector('#prompt') !== null && !document.querySelector('#chat-view').hidden", "the composer");
  await page.evaluate("document.querySelector('#prompt').focus()");
  await page.type(text);
  await page.press("Enter");
}

// The state of the last answer: "running", "done", "stopped", "lost", "failed".
export const LAST_STATE = "[...document.querySelectorAll('.message.assistant')].at(-1)?.dataset.state";
// Its words, as shown.
export const LAST_TEXT = "[...document.querySelectorAll('.message.assistant')].at(-1)?.querySelector(':scope > .prose').textContent ?? ''";

export function ended(page) {
  return page.until(`${LAST_STATE} !== undefined && ${LAST_STATE} !== 'running' && ${LAST_STATE}`, "the end of the answer");
}

// The conversations as the browser keeps them, newest first.
export function kept(page) {
  return page.evaluate("import('/store.js').then((store) => store.loadConversations())");
}

export async function screenshot(page, name) {
  await page.screenshot(path.join(process.env.SCREENSHOTS, `${name}.png`));
}

// Words without the spaces and line breaks between them, which layout may change.
export function words(text) {
  return text.trim().split(/\s+/);
}
