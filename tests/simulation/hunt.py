"""Many runs: one seed after the other, and the reduction of a failing plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from tests.simulation.plan import Plan, plan
from tests.simulation.setting import Patch
from tests.simulation.world import Result, run


def attempt(wanted: Plan, tracing: bool = False, also: Iterable[Patch] = ()) -> Result:
    """Run a plan; an unexpected exception counts as a broken promise."""
    try:
        return run(wanted, tracing, also)
    except Exception as error:
        return Result(f"{type(error).__name__}: {error}", "", 0, 0.0, frozenset(), 0, 0)


def brief(seed: int) -> tuple[int, str, str, int]:
    """Run a seed in a process of a pool: the seed, what broke, in which status it ended, after how many effects."""
    result = attempt(plan(seed))
    return seed, result.broken, result.status, result.effects


def shrink(broken: Plan, also: Iterable[Patch] = (), tries: int = 200) -> Plan:
    """Return a smaller plan that breaks a promise, too: without each fault and deed that it does not need."""
    also = tuple(also)

    def smaller() -> Iterator[Plan]:
        for name in ("deeds", "faults"):
            items = getattr(broken, name)
            for index in range(len(items)):
                yield dataclasses.replace(broken, **{name: items[:index] + items[index + 1 :]})
        simple = Plan(broken.seed)
        for field in dataclasses.fields(Plan):
            if getattr(broken, field.name) != getattr(simple, field.name) and field.name not in ("faults", "deeds"):
                yield dataclasses.replace(broken, **{field.name: getattr(simple, field.name)})

    again = True
    while again:
        again = False
        for candidate in smaller():
            tries -= 1
            if tries < 0:
                return broken
            if attempt(candidate, also=also).broken:
                broken, again = candidate, True
                break
    return broken


def source(wanted: Plan) -> str:
    """Return a plan in the form used in `found`: only the differences from the default plan."""
    plain = Plan(wanted.seed)
    parts = [str(wanted.seed)]
    for field in dataclasses.fields(Plan):
        value = getattr(wanted, field.name)
        if value == getattr(plain, field.name):
            continue
        if field.name == "mode":
            parts.append(f"mode=Mode.{value.name}")
        elif field.name in ("faults", "deeds"):
            kind = "Fault" if field.name == "faults" else "Deed"
            items = [f"{kind}{dataclasses.astuple(item)}" for item in value]
            parts.append(f"{field.name}=({', '.join(items)},)")
        else:
            parts.append(f"{field.name}={value!r}")
    return f"Plan({', '.join(parts)})"
