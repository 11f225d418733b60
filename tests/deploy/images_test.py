#!/usr/bin/env python3
"""Carries out the Dockerfiles without Docker: every stage in a debootstrap folder.

  tests/deploy/images_test.py [FOLDER]

Needs root, debootstrap and the machine's own package sources. Each image's entry point must then tell its version as the image's user.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = {"Dockerfile.coordinator": "deltafin", "Dockerfile.node": "deltafin-node"}


def run(*words, **options):
    print("+", shlex.join(map(str, words)), flush=True)
    return subprocess.run(list(map(str, words)), check=True, **options)


def mirror():
    """Where this machine gets Debian 12 from."""
    targets = subprocess.run(["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(SITE)"],
                             check=True, capture_output=True, text=True).stdout
    for line in targets.splitlines():
        release, component, site = line.split()
        if release == "bookworm" and component == "main":
            return site
    sys.exit("images_test.py: apt has no source for bookworm main on this machine")


def bare_debian(folder):
    """A bare Debian 12 that gets packages the way this machine does."""
    run("debootstrap", "--variant=minbase", "bookworm", folder, mirror())
    for name in ("apt.conf.d", "auth.conf.d", "keyrings", "preferences.d", "sources.list.d"):
        source = pathlib.Path("/etc/apt") / name
        if source.is_dir():
            shutil.copytree(source, folder / "etc/apt" / name, dirs_exist_ok=True)
    (folder / "etc/apt/sources.list").unlink(missing_ok=True)


def instructions(dockerfile):
    """(NAME, text) of each instruction; continued lines joined, comments gone."""
    text = "\n".join(line for line in dockerfile.read_text().splitlines() if not line.startswith("#"))
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, rest = line.split(maxsplit=1)
            yield name, rest.strip()


class Stage:
    """What one FROM and the instructions after it have made."""

    def __init__(self, folder, base):
        self.folder = folder
        self.user = "root"
        self.entry_point = None
        run("cp", "-a", base, folder)

    def copy(self, words, stages):
        source = ROOT
        if words[0].startswith("--from="):
            source = stages[words.pop(0).removeprefix("--from=")].folder
        where, to = words
        target = self.folder / to.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        if where == ".":
            archive = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], check=True, capture_output=True).stdout
            run("tar", "-x", "-C", target, input=archive)
        elif where.endswith("/"):
            run("cp", "-a", f"{source / where.lstrip('/')}/.", target)
        else:
            run("cp", "-a", source / where.lstrip("/"), target)

    def carry_out(self, name, text, stages):
        if name == "COPY":
            self.copy(text.split(), stages)
        elif name == "RUN":
            run("chroot", self.folder, "/bin/sh", "-ec", text, env={"PATH": PATH})
        elif name == "USER":
            self.user = text
        elif name == "ENTRYPOINT":
            self.entry_point = text.strip('[]"')
        elif name not in ("CMD", "VOLUME", "STOPSIGNAL"):
            sys.exit(f"images_test.py: {name} is not known here")


class Builder:
    """Stages of the same text are made once."""

    def __init__(self, folder):
        self.folder = folder
        self.base = folder / "base"
        self.made = {}
        bare_debian(self.base)

    def stage(self, lines, stages):
        key = tuple(lines)
        if key not in self.made:
            self.made[key] = Stage(self.folder / f"stage-{len(self.made)}", self.base)
            for name, text in lines[1:]:
                self.made[key].carry_out(name, text, stages)
        return self.made[key]

    def image(self, dockerfile):
        """The last stage."""
        parts = []
        for line in instructions(dockerfile):
            if line[0] == "FROM":
                parts.append([])
            parts[-1].append(line)
        stages = {}
        for lines in parts:
            base, *name = lines[0][1].split(" AS ")
            if base != "debian:12":
                sys.exit(f"images_test.py: FROM {base}: only debian:12 can be had")
            stages[name[0] if name else ""] = self.stage(lines, stages)
        return stages[""]


def check(image, program):
    if image.entry_point != f"/usr/bin/{program}":
        sys.exit(f"images_test.py: the entry point is {image.entry_point}")
    version = run("chroot", f"--userspec={image.user}", image.folder, image.entry_point, "--version",
                  stdout=subprocess.PIPE, text=True).stdout
    if not version.startswith(f"{program} "):
        sys.exit(f"images_test.py: {image.entry_point} --version says {version!r}")
    print(f"{program}: the image's user {image.user} runs {version.strip()}", flush=True)


def main():
    parent = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("images_test.py: skipped: needs root and debootstrap")
        return 77
    with tempfile.TemporaryDirectory(dir=parent, prefix="images-") as folder:
        builder = Builder(pathlib.Path(folder))
        for name, program in PROGRAMS.items():
            check(builder.image(ROOT / "deploy/docker" / name), program)
    print("2 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
