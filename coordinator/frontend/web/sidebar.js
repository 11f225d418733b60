// The list of conversations: search, rename, delete, export.
import {byId, iconButton, make, toast} from "./dom.js";
import {download, fileName, toJson, toMarkdown} from "./export.js";
import {day} from "./format.js";
import {deleteConversation, matches, saveConversation} from "./store.js";

export class Sidebar {
  // `conversations` is the list, newest first, which this keeps in order. on.removed(conversation), on.renamed(conversation).
  constructor(conversations, on) {
    this.conversations = conversations;
    this.on = on;
    this.current = null;
    this.list = byId("conversations");
    byId("search").addEventListener("input", () => this.draw());
    this.list.addEventListener("keydown", (event) => this.move(event));
    document.addEventListener("click", (event) => {
      if (!event.target.closest?.(".menu, .more")) this.closeMenu();
    });
    this.draw();
  }

  setCurrent(conversation) {
    this.current = conversation;
    this.draw();
  }

  // A conversation was changed: it comes first.
  touch(conversation) {
    const at = this.conversations.indexOf(conversation);
    if (at === 0 && this.list.querySelector(`[data-id="${CSS.escape(conversation.id)}"] a`)?.textContent === conversation.title) return;
    if (at >= 0) this.conversations.splice(at, 1);
    this.conversations.unshift(conversation);
    this.draw();
  }

  draw() {
    const query = byId("search").value;
    const found = this.conversations.filter((conversation) => matches(conversation, query));
    const items = [];
    let heading = "";
    for (const conversation of found) {
      const when = day(conversation.updated);
      if (when !== heading) items.push(make("li", {class: "day", role: "presentation"}, when));
      heading = when;
      items.push(this.item(conversation));
    }
    if (items.length === 0) {
      items.push(make("li", {class: "none"}, query === "" ? "Conversations appear here and stay in this browser."
                                                          : "No conversation has these words."));
    }
    this.list.replaceChildren(...items);
  }

  item(conversation) {
    const link = make("a", {href: `#/chat/${conversation.id}`, title: conversation.title,
                            "aria-current": conversation === this.current ? "page" : null}, conversation.title);
    link.addEventListener("dblclick", (event) => {
      event.preventDefault();
      this.rename(conversation);
    });
    const more = iconButton("more", `More for ${conversation.title}`, () => this.menu(conversation, more),
                            {"aria-haspopup": "menu", "aria-expanded": "false"});
    more.classList.add("more");
    return make("li", {"data-id": conversation.id}, link, more);
  }

  menu(conversation, button) {
    const open = button.getAttribute("aria-expanded") === "true";
    this.closeMenu();
    if (open) return;
    const entry = (label, run) => make("button", {type: "button", role: "menuitem", onclick: () => {
      this.closeMenu();
      run();
    }}, label);
    const menu = make("div", {class: "menu", role: "menu"},
      entry("Rename", () => this.rename(conversation)),
      entry("Export as Markdown", () => download(fileName(conversation, "md"), "text/markdown", toMarkdown(conversation))),
      entry("Export as JSON", () => download(fileName(conversation, "json"), "application/json", toJson(conversation))),
      entry("Delete", () => this.remove(conversation)));
    button.setAttribute("aria-expanded", "true");
    button.after(menu);
    if (menu.getBoundingClientRect().bottom > this.list.getBoundingClientRect().bottom) menu.classList.add("up");
    menu.firstChild.focus();
    menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        this.closeMenu();
        button.focus();
      }
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        event.stopPropagation();
        const entries = [...menu.children];
        const step = event.key === "ArrowDown" ? 1 : entries.length - 1;
        entries[(entries.indexOf(document.activeElement) + step) % entries.length].focus();
      }
    });
  }

  closeMenu() {
    this.list.querySelector(".menu")?.remove();
    this.list.querySelector('[aria-expanded="true"]')?.setAttribute("aria-expanded", "false");
  }

  rename(conversation) {
    const item = this.list.querySelector(`[data-id="${CSS.escape(conversation.id)}"]`);
    const input = make("input", {class: "rename", "aria-label": "New title", maxlength: "120"});
    input.value = conversation.title;
    const finish = (keep) => {
      input.onblur = null;
      const title = input.value.trim();
      if (keep && title !== "" && title !== conversation.title) {
        Object.assign(conversation, {title, named: true});
        saveConversation(conversation).catch((error) => toast(error.message));
        this.on.renamed(conversation);
      }
      this.draw();
    };
    input.onblur = () => finish(true);
    input.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter" || event.key === "Escape") finish(event.key === "Enter");
    });
    item.replaceChildren(input);
    input.select();
    input.focus();
  }

  remove(conversation) {
    const at = this.conversations.indexOf(conversation);
    this.conversations.splice(at, 1);
    this.on.removed(conversation);
    this.draw();
    deleteConversation(conversation.id).catch((error) => toast(error.message));
    toast("Deleted.", {label: "Undo", run: () => {
      this.conversations.splice(Math.min(at, this.conversations.length), 0, conversation);
      saveConversation(conversation).catch((error) => toast(error.message));
      this.draw();
    }});
  }

  // Arrow keys go through the list; F2 renames, Delete removes.
  move(event) {
    const links = [...this.list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (at < 0) return;
    const conversation = this.conversations.find(({id}) => id === links[at].parentElement.dataset.id);
    if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)].focus();
    else if (event.key === "ArrowUp") links[Math.max(at - 1, 0)].focus();
    else if (event.key === "F2") this.rename(conversation);
    else if (event.key === "Delete") this.remove(conversation);
    else return;
    event.preventDefault();
  }
}
