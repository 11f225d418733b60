#!/usr/bin/env python3
"""Checks the sources against DESIGN section 4 by their #include lines.

Who may include whom, one door per third-party library, sizes of files. Prints
every violation as "path:line: sentence" and exits 1 if there is one.

    include_edges.py SOURCE_ROOT
"""
import fnmatch
import os
import re
import sys

MAX_LINES = 400
SOURCE_FOLDERS = ("kernels", "proto", "common", "expert_node", "spine_node", "coordinator")
SIZED_FOLDERS = SOURCE_FOLDERS + ("tests", "bench")
SOURCE_ENDINGS = (".h", ".cc", ".cu", ".cuh", ".inc")

# Direct edges; what is reachable may be included. "coordinator" is the assembly: the files directly in the folder.
EDGES = {
    "kernels": (),
    "proto": (),
    "common/base": ("kernels",),
    "common/net": ("common/base", "proto"),
    "expert_node": ("common/net", "kernels"),
    "spine_node": ("common/base", "kernels"),
    "coordinator/cluster": ("common/net", "spine_node"),
    "coordinator/engine": ("coordinator/cluster",),
    "coordinator/frontend": ("coordinator/engine",),
    "coordinator": ("coordinator/frontend", "expert_node"),
    "coordinator/cli": ("coordinator",),
}

# Library: (what its includes look like, the files that may have them).
DOORS = {
    "libtorch": (r"(torch|ATen|c10)/", ("spine_node/torch/*",)),
    "gRPC": (r"(grpc|grpcpp)/|proto/.*\.grpc\.pb\.h",
             ("*_service.h", "*_service.cc", "*_client.h", "*_client.cc", "common/net/server_lifecycle.*", "common/net/credentials.cc", "common/net/peer_rights.cc",
              "common/net/grpc_status.*", "common/net/grpc_log.cc", "expert_node/expert_node.*", "expert_node/main.cc", "coordinator/*.cc!")),
    "RocksDB": (r"rocksdb/", ("expert_node/storage/expert_index.cc",)),
    "libcurl": (r"curl/", ("expert_node/storage/http_range_reader.cc", "coordinator/cli/endpoint_client.cc")),
    "Boost": (r"boost/", ("common/net/http_stream.cc", "common/net/http_request_parser.cc")),
    "nlohmann JSON": (r"nlohmann/", ("*.cc",)),
    "simdjson": (r"simdjson", ("common/base/*.cc",)),
    "OpenSSL": (r"openssl/", ("common/base/digest.cc", "common/net/certificate*.cc", "common/net/openssl_objects.*")),
    "xxHash": (r"xxh(ash|_x86dispatch)", ("common/base/digest.cc",)),
    "PCRE2": (r"pcre2", ("coordinator/frontend/*.cc",)),
    "CLI11": (r"CLI/", ("coordinator/cli/*.cc", "expert_node/*_flags.cc", "*/main.cc")),
    "intrinsics": (r"\w*intrin\.h|arm_neon\.h|arm_sve\.h|cuda", ("kernels/*/*",)),
    "protobuf": (r"google/protobuf/", ("common/net/*", "expert_node/*", "coordinator/*")),
    "abseil": (r"absl/", ("common/*", "expert_node/*", "spine_node/*", "coordinator/*")),
    "spdlog": (r"spdlog/", ("common/*", "expert_node/*", "spine_node/*", "coordinator/*")),
}
SYSTEM_FOLDERS = ("sys", "asm", "linux", "net", "netinet", "arpa", "bits")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def module_of(path):
    """The key of EDGES that a file belongs to, or None."""
    if path == "coordinator/main.cc":
        return "coordinator/cli"  # main only enters the command line
    parts = path.split("/")
    if parts[0] in ("common", "coordinator") and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else None


def reachable(module):
    seen = {module}
    todo = [module]
    while todo:
        for other in EDGES[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def matches(path, pattern):
    """A pattern with "!" at its end does not match in subfolders."""
    if pattern.endswith("!"):
        pattern = pattern[:-1]
        if path.count("/") != pattern.count("/"):
            return False
    return fnmatch.fnmatchcase(path, pattern)


def library_of(include):
    for library, (pattern, _) in DOORS.items():
        if re.match(pattern, include):
            return library
    return None


def check_door(path, include):
    library = library_of(include)
    if library and not any(matches(path, p) for p in DOORS[library][1]):
        return f"{include}: {library} may be included only in {', '.join(DOORS[library][1])}"
    return None


def check_edge(path, quoted, include):
    source = module_of(path)
    if source not in EDGES:
        return f"{path} is in a folder that DESIGN section 4 does not name"
    target = module_of(include)
    if include.split("/")[0] in SOURCE_FOLDERS:
        if target not in EDGES:
            return f"{include} is in a folder that DESIGN section 4 does not name"
        if target not in reachable(source):
            return f"{include}: {source} may not include {target}"
        return None
    if include.endswith(".cc"):
        return f"{include}: source files are not included"
    if library_of(include):
        return None
    folder = include.split("/")[0] if "/" in include else None
    if quoted or (folder and folder not in SYSTEM_FOLDERS):
        return f"{include} is neither ours, by its path from the root, nor a known library"
    return None


def check_include(path, line):
    """Violations in one line of the file at `path` (relative to the root)."""
    found = INCLUDE.match(line)
    if not found:
        return []
    quoted, include = found.group(1) == '"', found.group(2)
    complaints = (check_edge(path, quoted, include), check_door(path, include))
    return [c for c in complaints if c]


def check_file(path, text):
    """(line, sentence) of every violation in a file's text."""
    lines = text.splitlines()
    violations = []
    if len(lines) > MAX_LINES and not path.endswith(".inc"):
        violations.append((len(lines), f"{len(lines)} lines, more than {MAX_LINES}: split it along a noun"))
    if path.split("/")[0] not in SOURCE_FOLDERS:
        return violations
    if path.endswith(".h") and "#pragma once" not in lines:
        violations.append((1, "the header has no #pragma once"))
    for number, line in enumerate(lines, 1):
        violations += [(number, sentence) for sentence in check_include(path, line)]
    return violations


def source_files(root):
    for folder in SIZED_FOLDERS:
        for where, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                if name.endswith(SOURCE_ENDINGS):
                    yield os.path.relpath(os.path.join(where, name), root)


def main():
    root = sys.argv[1]
    count = bad = 0
    for path in source_files(root):
        count += 1
        with open(os.path.join(root, path), encoding="utf-8") as source:
            for line, sentence in check_file(path, source.read()):
                bad += 1
                print(f"{path}:{line}: {sentence}")
    print(f"{count} files, {bad} violations")
    if count == 0:
        print("no sources found: wrong root?")
    return 1 if bad or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
