"""Says what a deletion found, and what it does now, in few lines: first what people look for first."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from cleanup_orchestrator.core.words import Outcome, StepState
from cleanup_orchestrator.osc import common
from cleanup_orchestrator.sdk import one_line
from cleanup_orchestrator.sdk.text import FIRST_TYPES

#: Length from which a line about the other types names no further one.
_LONGEST = 57
#: Types that are named as moving, and as waiting.
_SHOWN = 3


def numbers(rows: Iterable[Mapping[str, Any]], key: str) -> Counter[str]:
    """Return how many resources each type has in all regions, as ``service.type``.

    :param rows: the counts of a deletion, or the types of a plan
    :param key: the field with the number
    """
    found = Counter[str]()
    for row in rows:
        if row.get(key):
            found[common.type_name({**row, "region": ""})] += row[key]
    return found


def lines(found: Mapping[str, int]) -> list[str]:
    """Return at most two lines about these resources."""
    first = [f"{found[name]} {words[found[name] != 1]}" for name, words in FIRST_TYPES.items() if found.get(name)]
    others = sorted((-number, name) for name, number in found.items() if number and name not in FIRST_TYPES)
    told = [", ".join(first)] if first else []
    if not others:
        return told
    number = -sum(each for each, _ in others)
    text = f"{'and ' if first else ''}{number} {'other' if first else 'resource'}{'' if number == 1 else 's'}: "
    for n, (each, name) in enumerate(others):
        item = f"{', ' if n else ''}{-each} {name}"
        if n and len(text) + len(item) > _LONGEST:
            left = len(others) - n
            return [*told, f"{text} and {left} more type{'' if left == 1 else 's'}"]
        text += item
    return [*told, text]


def services(found: Iterable[str]) -> int:
    """Return the number of services that these types have."""
    return len({name.partition(".")[0] for name in found})


#: Seconds by which a time of the API may be ahead of another one: the latter can be older than its answer.
_AHEAD = 60


def _time(moment: Any) -> datetime.datetime:
    """Return a time of the API. Python 3.9 cannot read the ``Z`` at its end."""
    return datetime.datetime.fromisoformat(str(moment).replace("Z", "+00:00"))


def is_before(moment: Any, other: Any) -> bool:
    """Return whether a time of the API is not later than another one; false if one of them is unknown."""
    try:
        return _time(moment) <= _time(other)
    except (TypeError, ValueError):
        return False


def ago(moment: Any, now: datetime.datetime | None) -> str:
    """Return how long ago a time of the API was; empty: it is not known, or the time is in the future.

    :param now: the time by the clock of the API; ``None``: it is not known
    """
    try:
        seconds = (now - _time(moment)).total_seconds() if now else -math.inf
    except (TypeError, ValueError):
        return ""
    if seconds < -_AHEAD:
        return ""
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if (count := int(seconds // size)) > 0:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "less than a minute ago"


def moving(deletion: Mapping[str, Any]) -> str:
    """Return which types a deletion works on now, which wait for what, and since when; empty: nothing is known."""
    rows = deletion.get("counts") or ()
    running = [_left(row) for row in rows if row.get("state") in (StepState.RUNNING, StepState.DISPATCHED)]
    waiting = [
        f"{_type(row)} {one_line(row['message'])}"
        for row in rows
        if row.get("outcome") != Outcome.CLEAR and str(row.get("message") or "").startswith("waits for ")
    ]
    parts = [f"now: {_few(running, ', ')}"] if running else []
    parts += [_few(waiting, "; ")] if waiting else []
    if parts and (since := one_line(deletion.get("status_at") or "")):
        parts.append(f"{one_line(deletion.get('status'))} since {since}")
    return "; ".join(parts)


def _type(row: Mapping[str, Any]) -> str:
    return common.type_name({**row, "region": ""})


def _left(row: Mapping[str, Any]) -> str:
    return f"{_type(row)} ({row['remaining']} left)" if row.get("remaining") else _type(row)


def _few(texts: list[str], separator: str) -> str:
    unique = list(dict.fromkeys(texts))
    more = [f"{len(unique) - _SHOWN} more"] if len(unique) > _SHOWN else []
    return separator.join([*unique[:_SHOWN], *more])
