#!/usr/bin/env python3
"""Checks that every message of proto/ has a fuzz target that reads it.

The table of docs/contributing.md says which target reads which messages. A
message is covered by its own row, or as part of a covered one, or has no
fields. Every target of the table exists and names its messages. Prints every
violation and exits 1 if there is one.

    fuzz_coverage.py SOURCE_ROOT
"""
import glob
import os
import re
import sys

COMMENT = re.compile(r"//[^\n]*")
BLOCK = re.compile(r"\b(message|enum|service)\s+(\w+)\s*\{")
FIELD = re.compile(r"(?:repeated\s+|optional\s+)?([\w.]+)\s+\w+\s*=\s*\d+")
ROW = re.compile(r"^\| `(\w+_fuzz)` \| (.+) \|$", re.MULTILINE)
TARGET = re.compile(r"deltafin_fuzz\((\w+_fuzz)\b")


def closing(text, begin):
    """The index of the brace that closes the one before `begin`."""
    depth = 1
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError("no closing brace")


def messages_of(proto):
    """Top-level messages of a file's text: name to types of its fields, those of nested messages included."""
    text = COMMENT.sub("", proto)
    messages = {}
    at = 0
    while (block := BLOCK.search(text, at)) is not None:
        at = closing(text, block.end())
        if block[1] == "message":
            messages[block[2]] = set(FIELD.findall(text[block.end():at]))
    return messages


def table_of(page):
    """Target to the messages of its row."""
    table = {}
    for row in ROW.finditer(page):
        table.setdefault(row[1], []).extend(re.findall(r"`(\w+)`", row[2]))
    return table


def covered_by(table, messages):
    seen = set()
    todo = [name for names in table.values() for name in names]
    while todo:
        name = todo.pop()
        if name in seen or name not in messages:
            continue
        seen.add(name)
        todo.extend(messages[name])
    return seen


def check(messages, table, sources):
    """`sources`: target to the text of its source. Returns sentences."""
    found = []
    covered = covered_by(table, messages)
    for name, fields in sorted(messages.items()):
        if fields and name not in covered:
            found.append(f"{name}: no fuzz target reads it; add one, and to the table of docs/contributing.md")
    for target, names in sorted(table.items()):
        if target not in sources:
            found.append(f"{target}: the table names a target that is not built")
        for name in names:
            if name not in messages:
                found.append(f"{target}: {name} is no message")
            elif target in sources and not re.search(rf"\b{name}\b", sources[target]):
                found.append(f"{target}: the source does not name {name}")
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def targets_of(root):
    sources = {}
    for path in glob.glob(f"{root}/tests/fuzz/**/CMakeLists.txt", recursive=True):
        for target in TARGET.findall(read(path)):
            source = os.path.join(os.path.dirname(path), target + ".cc")
            if os.path.exists(source):
                sources[target] = read(source)
    return sources


def main(root):
    messages = {}
    for path in sorted(glob.glob(f"{root}/proto/*.proto")):
        messages.update(messages_of(read(path)))
    found = check(messages, table_of(read(f"{root}/docs/contributing.md")), targets_of(root))
    for sentence in found:
        print(sentence)
    if not messages:
        print("no messages found")
    return 1 if found or not messages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
