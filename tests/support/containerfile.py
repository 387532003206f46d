"""Runs the steps of ``etc/container/Containerfile`` in folders with a Debian, because no container engine is here.

It knows just what that file uses, and fails on anything else.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import shutil
from collections.abc import Callable, Mapping

from tests.support.debian_root import DebianRoot

#: The images that a stage may begin with.
BASES = ("debian:bookworm-slim",)


class NotSupported(Exception):
    """The file uses what this module does not know."""


@dataclasses.dataclass
class Image:
    """A folder with what a stage has made so far, and how a container of it starts."""

    root: DebianRoot
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    user: str = ""  #: UID:GID; empty: root
    workdir: str = "/"
    entrypoint: list[str] = dataclasses.field(default_factory=list)
    arguments: list[str] = dataclasses.field(default_factory=list)
    healthcheck: list[str] = dataclasses.field(default_factory=list)

    def command(self, *command: str, environment: Mapping[str, str] | None = None, alone: bool = False) -> list[str]:
        """Return the command that runs another one as a container of the image does."""
        values = self.environment | dict(environment or {})
        path = values.pop("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        pairs = [f"{name}={value}" for name, value in values.items()]
        inner = ["env", "-i", f"--chdir={self.workdir}", f"PATH={path}", "LANG=C.UTF-8", *pairs, *command]
        if not self.user:
            return self.root.command(inner, alone=alone)
        user, _, group = self.user.partition(":")
        return self.root.command(inner, user=user, group=group, groups=[group], alone=alone)


def parse(text: str) -> list[tuple[str, str]]:
    """Return the instructions with their arguments; a continued line is one line.

    :raises NotSupported: an instruction is none that this module knows
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found = []
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            if name not in _STEPS and name != "FROM":
                raise NotSupported(name)
            found.append((name, rest.strip()))
    return found


def build(
    text: str, context: pathlib.Path, new: Callable[[], DebianRoot], arguments: Mapping[str, str] | None = None
) -> Image:
    """Run all stages and return the last one.

    :param context: the folder that COPY reads
    :param new: makes a Debian for a stage
    :param arguments: values of ARG, instead of their defaults
    :raises NotSupported: the file uses what this module does not know
    """
    stages: dict[str, Image] = {}
    image: Image | None = None
    for name, rest in parse(text):
        if name == "FROM":
            base, _, alias = rest.partition(" AS ")
            if base not in BASES:
                raise NotSupported(f"FROM {rest}")
            image = Image(new())
            stages[alias or "last"] = image
            values: dict[str, str] = {}
        elif image is None:
            raise NotSupported(f"{name} before FROM")
        elif name == "ARG":
            key, _, default = rest.partition("=")
            values[key] = (arguments or {}).get(key, default.strip('"'))
        elif name == "RUN":
            if rest.startswith(("[", "--")):
                raise NotSupported(f"RUN {rest}")
            _run(image, rest, values)
        elif name == "COPY":
            _copy(image, rest, context, stages)
        else:
            _STEPS[name](image, rest)
    if image is None:
        raise NotSupported("no FROM")
    return image


def _run(image: Image, rest: str, values: Mapping[str, str]) -> None:
    from tests.support.debian_root import run

    run(image.command("/bin/sh", "-c", rest, environment=values), env=image.root.environment())


def _copy(image: Image, rest: str, context: pathlib.Path, stages: Mapping[str, Image]) -> None:
    words, source, mode = rest.split(), context, ""
    while words[0].startswith("--"):
        flag, _, value = words.pop(0).partition("=")
        if flag == "--from":
            source = stages[value].root.folder
        elif flag == "--chmod":
            mode = value
        else:
            raise NotSupported(f"COPY {flag}")
    if image.user:
        raise NotSupported("COPY after USER")
    *names, given = words
    target = image.root.path(str(pathlib.PurePosixPath(image.workdir) / given))
    for name in names:
        path = source / name.lstrip("/")
        if path.is_dir():
            shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)
            continue
        to = target / path.name if given.endswith("/") else target
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
        to.chmod(int(mode or "0644", 8))


def _env(image: Image, rest: str) -> None:
    name, equals, value = rest.partition("=")
    if not equals or "$" in value or '"' in value or " " in value:
        raise NotSupported(f"ENV {rest}")
    image.environment[name] = value


def _user(image: Image, rest: str) -> None:
    if not re.fullmatch(r"\d+:\d+", rest):
        raise NotSupported(f"USER {rest}")
    image.user = rest


def _workdir(image: Image, rest: str) -> None:
    image.workdir = rest
    image.root.path(rest).mkdir(parents=True, exist_ok=True)


def _words(rest: str) -> list[str]:
    try:
        found: list[str] = json.loads(rest)
    except ValueError:
        raise NotSupported(f"a command that is no list: {rest}") from None
    return found


def _entrypoint(image: Image, rest: str) -> None:
    image.entrypoint = _words(rest)


def _cmd(image: Image, rest: str) -> None:
    image.arguments = _words(rest)


def _healthcheck(image: Image, rest: str) -> None:
    flags, found, command = rest.partition("CMD ")
    if not found or re.sub(r"--(interval|timeout|start-period)=\d+s ", "", flags):
        raise NotSupported(f"HEALTHCHECK {rest}")
    image.healthcheck = _words(command)


def _nothing(image: Image, rest: str) -> None:
    """Only documents something for the engine."""


_STEPS: dict[str, Callable[[Image, str], None]] = {
    "ARG": _nothing,
    "CMD": _cmd,
    "COPY": _nothing,
    "ENTRYPOINT": _entrypoint,
    "ENV": _env,
    "EXPOSE": _nothing,
    "HEALTHCHECK": _healthcheck,
    "RUN": _nothing,
    "STOPSIGNAL": _nothing,
    "USER": _user,
    "WORKDIR": _workdir,
}
