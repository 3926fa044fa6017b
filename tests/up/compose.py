"""Compose 2's reading of ${...} in docker-compose.yml, by its documented rules."""

from __future__ import annotations

import re
from collections.abc import Mapping

NAMED = re.compile(r"\$(?:(?P<escaped>\$)|(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*))")
HOW = re.compile(r":?[-+]")


def interpolate(value: object, env: Mapping[str, str]) -> object:
    """The value as a container gets it: strings anywhere in it substituted."""
    if isinstance(value, dict):
        return {key: interpolate(one, env) for key, one in value.items()}
    if isinstance(value, list):
        return [interpolate(one, env) for one in value]
    return substituted(value, env) if isinstance(value, str) else value


def substituted(text: str, env: Mapping[str, str]) -> str:
    """$$ is a dollar; words of - and + may hold variables themselves; a colon: also where it is set but empty."""
    done = ""
    while found := NAMED.search(text):
        done, text = done + text[: found.start()], text[found.end() :]
        if found["escaped"]:
            done += "$"
        elif found["plain"]:
            done += env.get(found["plain"], "")
        else:
            inside, text = to_the_brace(text)
            done += one(found["name"], inside, env)
    return done + text


def to_the_brace(text: str) -> tuple[str, str]:
    """Text before the brace that closes, and text after it. ValueError without one."""
    depth = 1
    for at, char in enumerate(text):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if not depth:
            return text[:at], text[at + 1 :]
    raise ValueError(f"no brace closes {text!r}")


def one(name: str, inside: str, env: Mapping[str, str]) -> str:
    if not inside:
        return env.get(name, "")
    how = HOW.match(inside)
    if how is None:
        raise ValueError(f"{name}: {inside!r} is no form of Compose's")
    word, given = inside[how.end() :], env.get(name)
    there = bool(given) if ":" in how[0] else given is not None
    if how[0].endswith("+"):
        return substituted(word, env) if there else ""
    if there:
        return given or ""
    return substituted(word, env)
