#!/usr/bin/env python3
"""Finds the sources that cannot share a translation unit with the others of their target.

  cmake/unity_clashes.py FILE     lines "TARGET SOURCE" in, those to compile alone out

A name that a source keeps to itself (in its unnamed namespace) may stand in another source of the same target; the compiler would
take them for one. Goes by the layout of clang-format, so that it may miss a name: then the compiler says so.
"""

import collections
import re
import sys

DEFINED = re.compile(
    r"^(?:template\b.*> ?)?(?:inline |static |constexpr |const |\[\[\w+\]\] )*"
    r"(?:(?:class|struct|enum class|enum) (?P<type>\w+)(?: final)?(?: :.*)?(?:;| \{)"
    r"|using (?P<alias>\w+) ="
    r"|[\w:][\w:<>,&*() \[\]]*?[ &*>](?P<value>\w+)(?:\[\w*\])*(?: = | \{|\{|;|$)"
    r"|[\w:][\w:<>,&*() \[\]]*?[ &*>](?P<function>\w+)\()")
TEST_NAME = re.compile(r"^(?:TEST|TEST_F|TEST_P|INSTANTIATE\w+|MATCHER\w*)\((\w+)")
USED = re.compile(r"^using (?:[\w:]+::)(\w+);")
SAME_EVERYWHERE = {"Json", "fs"}  # aliases of one thing


def names(path):
    """What the unnamed namespaces of a source define, and what they take from others."""
    defined, used = set(), set()
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
            elif inside and line[0] not in " }/#":
                found = DEFINED.match(line)
                if found and not TEST_NAME.match(line):
                    defined.update(name for name in found.groups() if name)
    return defined - SAME_EVERYWHERE, used


def main():
    seen = collections.defaultdict(lambda: (set(), set()))
    for line in open(sys.argv[1], encoding="utf-8"):
        target, path = line.split()
        defined, used = names(path)
        seen_defined, seen_used = seen[target]
        if defined & (seen_defined | seen_used) or used & seen_defined:
            print(target, path)
            continue
        seen_defined |= defined
        seen_used |= used


if __name__ == "__main__":
    main()
