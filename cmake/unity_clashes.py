#!/usr/bin/env python3
"""Finds the sources that cannot share a translation unit with the others of their target.

  cmake/unity_clashes.py FILE     lines "TARGET SOURCE" in, those to compile alone out

A name that a source keeps to itself (in its unnamed namespace) may stand in another source of the same target; the compiler would
take them for one. Goes by the layout of clang-format, so that it may miss a name: then the compiler says so.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("common", "coordinator", "expert_node", "kernels", "spine_node", "tests")

DEFINED = re.compile(
    r"^(?:template\b.*> ?)?(?:inline |static |constexpr |const |\[\[\w+\]\] )*"
    r"(?:(?:class|struct|enum class|enum) (?P<type>\w+)(?: final)?(?: :.*)?(?:;| \{)"
    r"|[\w:][\w:<>,&*() \[\]]*?[ &*>](?P<value>\w+)(?:\[\w*\])*(?: = | =$| \{|\{|;|$)"
    r"|[\w:][\w:<>,&*() \[\]]*?[ &*>](?P<function>\w+)\()")
TEST_NAME = re.compile(r"^(?:TEST|TEST_F|TEST_P|INSTANTIATE\w+|MATCHER\w*)\((\w+)")
USED = re.compile(r"^using (?:[\w:]+::)(\w+);")
ALIAS = re.compile(r"^(?:using|namespace) (\w+) = ([^;]*)")


def names(path):
    """What the unnamed namespaces of a source define, take from others, and give another name: what for."""
    defined, used, aliases = set(), set(), {}
    inside = False
    with open(path, encoding="utf-8") as source:
        for line in source:
            if line.startswith("namespace {"):
                inside = True
            elif line.startswith("}  // namespace\n"):
                inside = False
            use = USED.match(line)
            if use:
                used.add(use[1])
            elif inside and ALIAS.match(line):
                aliases.update([ALIAS.match(line).groups()])
            elif inside and line[0] not in " }/#":
                found = DEFINED.match(line)
                if found and not TEST_NAME.match(line):
                    defined.update(name for name in found.groups() if name)
    return defined, used, aliases


def shared_constants():
    """Of all headers: a source that includes none of them may be merged with one that does."""
    constant = re.compile(r"^inline constexpr .*?(\w+)(?:\[\w*\])? =", re.MULTILINE)
    found = set()
    for folder in FOLDERS:
        for header in (ROOT / folder).rglob("*.h"):
            found.update(constant.findall(header.read_text(encoding="utf-8")))
    return found


class Merged:
    """The sources of one target that can share a translation unit."""

    def __init__(self):
        self.defined, self.used, self.aliases = set(), set(), {}

    def takes(self, defined, used, aliases):
        if defined & (self.defined | self.used | self.aliases.keys()) or self.defined & (used | aliases.keys()):
            return False
        if any(self.aliases.get(name, meaning) != meaning for name, meaning in aliases.items()):
            return False
        self.defined |= defined
        self.used |= used
        self.aliases |= aliases
        return True


def main():
    shared = shared_constants()
    merged = collections.defaultdict(Merged)
    for line in open(sys.argv[1], encoding="utf-8"):
        target, path = line.split()
        defined, used, aliases = names(path)
        if defined & shared or not merged[target].takes(defined, used, aliases):
            print(target, path)


if __name__ == "__main__":
    main()
