// Markdown of a model to DOM nodes. Foreign text: it becomes text nodes and a closed set of elements, never HTML; links
// lead to http, https and mailto alone, and pictures are shown as links, so that nothing is loaded unasked.
import {copyText, icon, make} from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])\s*(?:\1\s*){2,}$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const MAX_DEPTH = 12;
// A longer line is shown as it is: no text may keep the page busy.
const MAX_INLINE = 10000;

// The source cut into blocks: each can be rendered alone, and all but the last stay as they are while text is added.
export function splitBlocks(source) {
  const blocks = [];
  let lines = [];
  let fence = null;
  const flush = () => {
    if (lines.some((line) => line.trim() !== "")) blocks.push(lines.join("\n"));
    lines = [];
  };
  for (const line of source.split("\n")) {
    const mark = line.match(FENCE);
    if (fence !== null) {
      lines.push(line);
      if (closes(mark, fence)) {
        fence = null;
        flush();
      }
      continue;
    }
    if (mark !== null) {
      flush();
      fence = mark[1];
      lines.push(line);
    } else if (line.trim() === "" && !continues(lines)) {
      flush();
    } else {
      if (lines.length > 0 && lines[lines.length - 1].trim() === "" && !/^\s/.test(line) && !ITEM.test(line)) flush();
      lines.push(line);
    }
  }
  flush();
  return blocks;
}

function closes(mark, fence) {
  return mark !== null && mark[2].trim() === "" && mark[1][0] === fence[0] && mark[1].length >= fence.length;
}

// A list goes on over an empty line.
function continues(lines) {
  return lines.length > 0 && ITEM.test(lines[0]);
}

export function renderBlock(source) {
  return renderLines(source.split("\n"), 0);
}

// Replaces what `element` shows by `source`, leaving blocks that are the same.
export function renderInto(element, source) {
  const blocks = splitBlocks(source);
  const shown = element.shownBlocks ?? [];
  let same = 0;
  while (same < blocks.length && same < shown.length && shown[same].source === blocks[same]) ++same;
  for (const old of shown.slice(same)) old.nodes.forEach((node) => node.remove());
  const added = blocks.slice(same).map((block) => ({source: block, nodes: renderBlock(block)}));
  for (const block of added) element.append(...block.nodes);
  element.shownBlocks = [...shown.slice(0, same), ...added];
}

function renderLines(lines, depth) {
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    const [node, next] = nextNode(lines, at, depth);
    if (node !== null) nodes.push(node);
    at = next;
  }
  return nodes;
}

// [node or null, the line after it]
function nextNode(lines, at, depth) {
  const line = lines[at];
  if (line.trim() === "") return [null, at + 1];
  const fence = line.match(FENCE);
  if (fence !== null) return codeBlock(lines, at, fence);
  const heading = line.match(HEADING);
  if (heading !== null) {
    // The page has an h1, messages begin below.
    return [make(`h${Math.min(heading[1].length + 2, 6)}`, {}, inline(withoutClosing(heading[2]))), at + 1];
  }
  if (RULE.test(line)) return [make("hr"), at + 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) return quote(lines, at, depth);
  if (depth < MAX_DEPTH && ITEM.test(line)) return list(lines, at, depth);
  if (line.includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && TABLE_RULE.test(lines[at + 1])) {
    return table(lines, at);
  }
  return paragraph(lines, at);
}

// "Title ##" is "Title".
function withoutClosing(title) {
  const text = title.trimEnd();
  let end = text.length;
  while (end > 0 && text[end - 1] === "#") --end;
  return end < text.length && (end === 0 || /\s/.test(text[end - 1])) ? text.slice(0, end).trimEnd() : text;
}

function codeBlock(lines, at, fence) {
  let end = at + 1;
  while (end < lines.length && !closes(lines[end].match(FENCE), fence[1])) ++end;
  const text = lines.slice(at + 1, end).join("\n");
  const language = fence[2].trim().split(/\s/)[0];
  const copy = make("button", {type: "button", class: "copy", "aria-label": "Copy the code"}, icon("copy"), "Copy");
  copy.addEventListener("click", () => copyText(text, copy));
  const head = make("div", {class: "code-head"}, make("span", {}, language || "text"), copy);
  return [make("div", {class: "code"}, head, make("pre", {tabindex: "0"}, make("code", {}, text))), end + 1];
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) ++end;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [make("blockquote", {}, renderLines(inner, depth + 1)), end];
}

function list(lines, at, depth) {
  const [, indent, mark] = lines[at].match(ITEM);
  const ordered = /\d/.test(mark);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const found = lines[end].match(ITEM);
    const width = lines[end].match(/^\s*/)[0].length;
    if (found !== null && found[1].length <= indent.length) {
      if (/\d/.test(found[2]) !== ordered) break;
      items.push([found[3]]);
    } else if (lines[end].trim() === "" || width > indent.length) {
      items[items.length - 1].push(lines[end].slice(Math.min(width, indent.length + 2)));
    } else {
      break;
    }
    ++end;
  }
  const start = ordered ? parseInt(mark, 10) : 1;
  const attributes = ordered && start !== 1 ? {start} : {};
  return [make(ordered ? "ol" : "ul", attributes, items.map((item) => listItem(item, depth))), end];
}

function listItem(lines, depth) {
  const nodes = renderLines(lines, depth + 1);
  // An item of one paragraph needs none.
  const plain = nodes.length > 0 && nodes[0].tagName === "P" ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes;
  return make("li", {}, plain);
}

function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map((cell) => cell.trim());
}

function table(lines, at) {
  const head = cells(lines[at]);
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) ++end;
  const rows = lines.slice(at + 2, end).map((line) => {
    const row = cells(line);
    return make("tr", {}, head.map((_, i) => make("td", {}, inline(row[i] ?? ""))));
  });
  return [make("div", {class: "table", tabindex: "0"},
               make("table", {}, make("thead", {}, make("tr", {}, head.map((cell) => make("th", {}, inline(cell))))),
                    make("tbody", {}, rows))), end];
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== "" && !startsBlock(lines[end])) ++end;
  const nodes = [];
  lines.slice(at, end).forEach((line, i) => {
    if (i > 0) nodes.push(make("br"));
    nodes.push(...inline(line.trim()));
  });
  return [make("p", {}, nodes), end];
}

// Tried in this order where the text is; the first group that is there says what it is.
const INLINE = new RegExp([
  /(?<code>`+)(?<codeText>.+?)(?<!`)\k<code>(?!`)/,
  /\\(?<escaped>[\\`*_{}[\]()#+\-.!~|>])/,
  /!?\[(?<linkText>[^\]]*)\]\((?<target>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+"[^"]*")?\)/,
  /<(?<auto>https?:\/\/[^\s<>]+)>/,
  /(?<bare>https?:\/\/[^\s<>"')\]]*[^\s<>"')\].,;:!?])/,
  /\*\*(?<strong>\S(?:.*?\S)??)\*\*(?!\*)/,
  /(?<![\w*])\*(?<emphasis>[^\s*](?:[^*]*?[^\s*])??)\*(?!\*)/,
  /(?<!\w)__(?<strong2>\S(?:.*?\S)??)__(?!\w)/,
  /(?<!\w)_(?<emphasis2>[^\s_](?:.*?[^\s_])??)_(?!\w)/,
  /~~(?<struck>\S(?:.*?\S)??)~~/,
].map((pattern) => pattern.source).join("|"));

export function inline(text, depth = 0) {
  const nodes = [];
  let rest = text;
  while (rest !== "") {
    const found = depth < MAX_DEPTH && rest.length <= MAX_INLINE ? rest.match(INLINE) : null;
    if (found === null) break;
    if (found.index > 0) nodes.push(rest.slice(0, found.index));
    nodes.push(inlineNode(found, depth));
    rest = rest.slice(found.index + found[0].length);
  }
  if (rest !== "") nodes.push(rest);
  return nodes;
}

function inlineNode(found, depth) {
  const part = found.groups;
  if (part.codeText !== undefined) return make("code", {}, part.codeText.trim() || part.codeText);
  if (part.escaped !== undefined) return part.escaped;
  if (part.target !== undefined) return link(part.target, part.linkText, depth);
  if (part.auto !== undefined) return link(part.auto, part.auto, MAX_DEPTH);
  if (part.bare !== undefined) return link(part.bare, part.bare, MAX_DEPTH);
  const strong = part.strong ?? part.strong2;
  if (strong !== undefined) return make("strong", {}, inline(strong, depth + 1));
  const emphasis = part.emphasis ?? part.emphasis2;
  if (emphasis !== undefined) return make("em", {}, inline(emphasis, depth + 1));
  return make("del", {}, inline(part.struck, depth + 1));
}

function link(target, text, depth) {
  const label = text === "" ? [target] : inline(text, Math.min(depth + 1, MAX_DEPTH));
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return make("span", {}, label);
  return make("a", {href: target, target: "_blank", rel: "noopener noreferrer nofollow"}, label);
}
