#!/usr/bin/env python3
"""Checks that no two files define different types of the same name.

Two such types in one program break the rule of one definition, and nobody says
so: the linker keeps one of the functions that both have. Looks at the types of
named namespaces; those in an unnamed one, or inside another type, may share
names. A folder that is linked by itself may, too. Prints every violation and
exits 1 if there is one.

    one_definition.py SOURCE_ROOT
"""
import os
import re
import sys

OPENS = re.compile(r"^(?:inline )?namespace (?:([\w:]+) )?\{")
CLOSES = re.compile(r"^\}  // namespace")
TYPE = re.compile(
    r"^(?:struct|class|enum class|enum|union) (?:\[\[\w+\]\] |alignas\(\w+\) |ABSL_\w+(?:\([^)]*\))? )*(\w+)(?: final)?(?: : .*)?(?: ?\{|$)")
FOLDERS = ("bench", "common", "coordinator", "expert_node", "kernels", "spine_node")
ALONE = ("spine_node/torch",)  # a loadable module
MAINS = re.compile(r"^bench/[^/]+\.cc$|^(?:.*/)?main\.cc$")  # one in a program


def types_of(text):
    """(namespace, name) of every type that is defined in a named namespace."""
    namespaces = []
    found = []
    for line in text.splitlines():
        if opened := OPENS.match(line):
            namespaces.append(opened[1])
        elif CLOSES.match(line):
            namespaces.pop()
        elif (kind := TYPE.match(line)) and None not in namespaces and ("{" in line or not line.endswith(";")):
            found.append(("::".join(namespaces), kind[1]))
    return found


def sources(root):
    for folder in FOLDERS:
        for path, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                file = os.path.relpath(os.path.join(path, name), root)
                if name.endswith((".h", ".cc", ".cu", ".cuh")) and not file.startswith(ALONE):
                    yield file


def violations(root):
    where = {}
    for file in sources(root):
        if MAINS.match(file):
            continue
        with open(os.path.join(root, file), encoding="utf-8") as f:
            for found in types_of(f.read()):
                where.setdefault(found, []).append(file)
    for (namespace, name), files in sorted(where.items()):
        if len(files) > 1:
            yield f"{namespace}::{name} is defined in {' and '.join(files)}: give one of them another name"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = list(violations(sys.argv[1]))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
