"""Reads a Dockerfile and tells what is wrong with it: the rules that matter for this image, no general linter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

Instruction = tuple[str, str]

_SECRET = re.compile(r"\w*(KEY|SECRET|TOKEN|PASSWORD)\w*\s*=", re.IGNORECASE)
_PINNED = re.compile(r"[a-z0-9./-]+:\d+\.\d+\.\d+(-[a-z0-9.-]+)?|[a-z0-9./-]+@sha256:[0-9a-f]{64}")


@dataclass(slots=True)
class Stage:
    """One FROM and what follows it."""

    image: str
    instructions: list[Instruction] = field(default_factory=list)

    def values(self, name: str) -> list[str]:
        return [value for instruction, value in self.instructions if instruction == name]


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile, each with its instructions in order, continued lines joined."""
    found: list[Stage] = []
    for name, value in _instructions(text):
        if name == "FROM":
            found.append(Stage(value.split()[0]))
        elif found:
            found[-1].instructions.append((name, value))
    return found


def exec_form(value: str) -> list[str] | None:
    """The words of an instruction in exec form; None for the shell form."""
    try:
        words = json.loads(value)
    except json.JSONDecodeError:
        return None
    return words if isinstance(words, list) else None


def problems(text: str) -> list[str]:
    found = stages(text)
    return [] if not found else [*_of_the_file(found), *_of_the_image(found[-1])]


def _of_the_file(found: list[Stage]) -> Iterator[str]:
    if len(found) < 2:
        yield "one stage only: what builds would be shipped"
    if len({stage.image for stage in found}) > 1:
        yield "stages differ in their base: bytecode and wheels might not fit"
    for stage in found:
        if not _PINNED.fullmatch(stage.image):
            yield f"{stage.image} is not pinned to a patch version or digest"
        if stage.values("ADD"):
            yield "ADD fetches and unpacks; use COPY"
        for value in stage.values("COPY"):
            if "." in value.split()[:-1]:
                yield "COPY . takes whatever lies about"
        for value in stage.values("ENV") + stage.values("ARG"):
            if _SECRET.search(value):
                yield "a secret would stay in the image"


def _of_the_image(stage: Stage) -> Iterator[str]:
    users = stage.values("USER")
    if not users or not re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", users[-1]):
        yield "USER is not the number of somebody other than root"
    if len(stage.values("ENTRYPOINT")) != 1 or exec_form(stage.values("ENTRYPOINT")[0]) is None:
        yield "ENTRYPOINT is not in exec form: a shell would swallow the signal to end"
    checks = [value.partition("CMD")[2].strip() for value in stage.values("HEALTHCHECK")]
    if not checks or exec_form(checks[-1]) is None:
        yield "HEALTHCHECK is missing or needs a shell"
    if stage.values("RUN"):
        yield "RUN in the last stage: build in the first, and copy"
    if stage.values("VOLUME"):
        yield "VOLUME would be writable"
    if not any("PYTHONDONTWRITEBYTECODE=1" in value for value in stage.values("ENV")):
        yield "PYTHONDONTWRITEBYTECODE is not set: the root is read-only"


def _instructions(text: str) -> Iterator[Instruction]:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            name, _, value = line.strip().partition(" ")
            yield name.upper(), value.strip()
