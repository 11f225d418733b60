// Conversations as files.

export function toMarkdown(conversation) {
  const parts = [`# ${conversation.title}`, ""];
  for (const message of conversation.messages) {
    parts.push(message.role === "user" ? "## You" : "## Model", "");
    if (message.reasoning) {
      parts.push("<details><summary>Thinking</summary>", "", message.reasoning, "", "</details>", "");
    }
    parts.push(message.content, "");
  }
  return parts.join("\n");
}

export function toJson(conversation) {
  return `${JSON.stringify(conversation, null, 2)}\n`;
}

// "What is the sea" -> "what-is-the-sea.md"
export function fileName(conversation, ending) {
  const words = conversation.title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  return `${words.slice(0, 60) || "conversation"}.${ending}`;
}

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
