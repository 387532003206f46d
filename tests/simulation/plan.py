"""What a seed decides: the world, the faults and the deeds, as data. The same plan always gives the same run."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from cleanup_orchestrator.core.deletion import Mode

#: What may go wrong at an effect.
FAULTS = {
    "crash": "the process dies",
    "freeze": "the process stands still, perhaps past its lease, and then goes on",
    "refuse": "a service answers 500, 503, 429 or 403, and does nothing",
    "cut": "no connection",
    "hang": "a call is not answered, and does nothing",
    "lost": "a call takes effect, and its answer is lost",
    "slow": "a call takes effect, and is not answered in time",
    "outage": "a service fails for a while",
    "store_fails": "a transaction does not begin",
    "store_lost": "a transaction is committed, and the reply is lost",
    "store_down": "the database is away for several tries",
    "drop": "a message is lost",
    "twice": "a message comes twice",
    "late": "a message comes late",
}

#: What users, admins and other services do meanwhile.
DEEDS = {
    "cancel": "a user cancels",
    "retry": "a user retries",
    "request": "a user asks for the same once more",
    "create": "a member makes something in the project, if he still can",
    "remove": "a member deletes a resource of the project",
    "enable": "an admin enables the project",
    "invite": "an admin gives a user a role on the project",
    "unfence": "a Keystone process without our part updates the project, and so drops the fence",
    "lift": "an admin lifts the fence",
    "swap": "a domain manager opens the lock of a project, a member creates a resource, and he closes it again",
    "reopen": "a domain manager does that once the project is disabled",
    "open": "a domain manager opens the lock of a project",
    "shut": "a domain manager closes what he has opened",
    "disable": "a domain manager disables a project",
    "bar": "a domain manager sets a fence",
    "halt": "a domain manager cancels",
    "flood": "a domain manager requests dry runs of many projects",
    "other": "an admin requests a dry run of a project in another domain",
    "tag": "a domain manager changes the tags of a project",
    "drop": "a domain manager deletes a project",
    "vanish": "an admin deletes the project",
    "transfer": "a resource goes to another project",
    "share": "a resource becomes protected",
    "stop": "a worker process is told to stop",
    "oust": "an admin takes the orchestrator's role on the project",
    "protect": "an admin records a lien on the project",
    "unprotect": "an admin removes all liens",
    "brake": "an admin sets the brake",
    "unbrake": "an admin lifts the brake",
    "force": "an admin forces the deletion",
    "child": "an admin makes a project below one of the tree",
    "restore": "a user restores the project before anything of it is deleted",
    "switch": "an admin stops a server that runs, or starts one that does not",
    "scan": "an admin begins an orphan scan",
    "adopt": "an admin adopts what the latest scan found",
    "revive": "Keystone knows the dead project again",
    "untag": "a member or an admin removes the tag of a resource, or gives it a tag or a name that is not selected",
    "postpone": "a user moves the date of a deletion to a later one",
    "hasten": "a user has a deletion begin now",
}

#: (deed, how likely) where nothing else is said.
_LIKELY = {
    "cancel": 2,
    "retry": 3,
    "request": 2,
    "create": 8,
    "remove": 1,
    "enable": 3,
    "invite": 3,
    "unfence": 2,
    "vanish": 1,
    "transfer": 2,
    "share": 1,
    "stop": 2,
    "oust": 1,
}

#: What a domain manager and an admin do about the lock, by how likely it is, in the plans with such a manager.
_MANAGED = {
    "swap": 6,
    "reopen": 3,
    "open": 2,
    "shut": 2,
    "lift": 2,
    "disable": 1,
    "bar": 1,
    "tag": 1,
    "drop": 0.3,
    "create": 3,
}
#: How many of the seeds have a domain manager who works against the proof.
MANAGED = 0.3

#: What puts a deletion on hold, and what ends the hold.
_HOLDS = {"protect": "unprotect", "brake": "unbrake"}

#: Services of a world, the small ones first.
SERVICES = (
    ("network",),
    ("network", "key-manager"),
    ("compute", "network"),
    ("block-storage",),
    ("image", "key-manager"),
    ("network", "image", "identity"),
    ("compute", "network", "block-storage"),
    ("compute", "network", "block-storage", "image", "key-manager", "identity"),
)

#: Trees below the project, as in ``Plan.tree``.
TREES = ((0,), (0,), (0, 0), (0, 1), (0, 1, 0))

#: The types of each service that may be named in a selection.
#: Criteria of single resources, besides the tag.
FURTHER = ("not_tags", "names", "not_names", "updated_before")
SELECTABLE = {
    "compute": ("server",),
    "network": ("port", "network"),
    "block-storage": ("snapshot", "volume"),
    "image": ("image",),
    "key-manager": ("secret",),
    "identity": ("credential",),
}

#: How many of the seeds have a flood of requests.
FLOODING = 0.03

#: In how many of the seeds each process of Keystone has a token cache of its own.
OWN_CACHES = 0.05
#: The number of the effect before which no admin mends that.
_MENDED = 400

#: How many of the seeds have a request with a date.
DATED = 0.1

#: How many of the seeds empty a project and keep it.
PURGING = 0.12

#: The type of each service that may have plugin liens.
LIEN_TYPES = {
    "compute": "compute.server",
    "network": "network.network",
    "block-storage": "block-storage.volume",
    "image": "image.image",
}

#: Obstacles that stay until an admin removes them: a cascade must become blocked or stalled, and name it.
OBSTACLES = ("foreign", "uncovered", "protected", "ownerless", "broken", "stuck")


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """A fault at the first effect from number ``at`` on at which it is possible."""

    at: int
    kind: str
    size: float = 0.5  #: 0 to 1: its duration, or its target


@dataclasses.dataclass(frozen=True, slots=True)
class Deed:
    """An act of a user, an admin or a service right before effect number ``at``."""

    at: int
    what: str
    size: float = 0.5  #: 0 to 1, without 1: chooses the target


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    seed: int  #: seed of the scheduler and of the spontaneous acts of the cloud
    mode: Mode = Mode.CASCADE
    dry_run: bool = False
    driver: str = "revoke"
    services: tuple[str, ...] = ("network",)
    regions: int = 1
    fill: int = 1  #: resources of each type
    workers: int = 2
    threads: int = 1  #: of each worker
    keystones: int = 1  #: processes of Keystone
    own_caches: bool = False  #: each process of Keystone has a token cache of its own, until the calm
    listening: bool = False  #: an engine hears Keystone's notifications
    engines: int = 1
    parallel: int = 1  #: deletes at once within a sweep
    stick: float = 0.5
    settle: float = 20.0  #: the longest token cache of the cloud, in seconds
    disabled: bool = False  #: the project is, from the beginning
    member: bool = False  #: the orchestrator has its role on the project from the beginning
    inherited: bool = False  #: a user gets tokens through a role on the domain
    block: bool = False  #: [drain] inherited_grants
    leaky: bool = False  #: listings ignore their filter
    slow_deletes: float = 0.0  #: how many of the deletes take a while
    obstacle: str = ""
    bound: bool = False  #: the deletion is bound to a plan that lacks some of the resources
    limit: int = 0  #: [approval] resources
    window: float = 0.0  #: [deletion] recovery_window, in seconds
    delay: float = 0.0  #: between the request and its date, in seconds; 0: it has none
    tree: tuple[int, ...] = ()  #: of each project below: the number of the one above it, 0 for the top
    lien_types: tuple[str, ...] = ()  #: [protection] lien_types
    stop_servers: bool = False  #: [deletion] recovery_stop_servers
    selected: tuple[str, ...] = ()  #: in mode ``purge``: services and ``service.type`` names; empty: all types
    skipped: tuple[str, ...] = ()  #: in mode ``purge``: services and types that are not selected, whatever is
    tagged: bool = False  #: only what has the tag is selected, about half of the resources
    further: tuple[str, ...] = ()  #: further criteria, of ``FURTHER``: about a third of the resources fails one
    janitor: bool = False  #: the janitor is configured, and secrets are shown to no token of an admin
    orphans: bool = False  #: there is a project that Keystone does not know; a scan finds it, and it is adopted
    flood: int = 0  #: projects of which a domain manager requests dry runs; there is one in another domain as well
    places: int = 0  #: [engine] deletions_at_once; 0: as the seed says
    ending: str = ""  #: what is done with a resting or stuck deletion: ``cancel``, ``mend``, ``force``, ``retry``
    faults: tuple[Fault, ...] = ()
    deeds: tuple[Deed, ...] = ()

    @property
    def chaos_over(self) -> int:
        """Return the number of the effect after which there are no more faults."""
        return max((_MENDED * self.own_caches, *(x.at for x in (*self.faults, *self.deeds)))) + 1

    def selects(self, name: str) -> bool:
        """Return whether a type (``service.type``), or a service of which no type is known, is selected."""
        if self.mode is Mode.PURGE and (name in self.skipped or name.split(".")[0] in self.skipped):
            return False
        everything = self.mode is not Mode.PURGE or not self.selected
        return everything or name in self.selected or name.split(".")[0] in self.selected


def plan(seed: int) -> Plan:
    """Return what a seed decides."""
    r = random.Random(f"plan {seed}")
    weights = [7, 5, 4, 4, 3, 3, 1, 1]
    services = r.choices(SERVICES, weights)[0]
    mode = r.choices([Mode.CASCADE, Mode.REPORT], [3, 1])[0]
    dry_run = r.random() < 0.07
    empty = mode is Mode.REPORT and r.random() < 0.7  # else it ends with the first inventory
    horizon = r.choice([60, 150, 300, 450])
    obstacle = r.choice(OBSTACLES) if mode is Mode.CASCADE and not dry_run and r.random() < 0.12 else ""
    wanted = Plan(
        seed=seed,
        mode=mode,
        dry_run=dry_run,
        driver=r.choices(["revoke", "fence", "none"], [5, 4, 1])[0],
        services=services,
        regions=2 if len(services) <= 2 and r.random() < 0.15 else 1,
        fill=0 if empty else r.choices([1, 2, 4], [6, 3, 1])[0],
        workers=r.choice([1, 2, 2, 3]),
        threads=r.choice([1, 1, 2]),
        engines=r.choice([1, 1, 2]),
        parallel=r.choice([1, 1, 3]),
        stick=r.choice([0.0, 0.5, 0.8, 0.95]),
        disabled=r.random() < 0.05 and "key-manager" not in services,
        member=r.random() < 0.15,
        inherited=r.random() < 0.08,
        block=False,
        leaky=r.random() < 0.2,
        slow_deletes=r.choice([0.0, 0.0, 0.5]),
        obstacle=obstacle,
        ending=r.choice(["cancel", "mend", "force"]) if obstacle else r.choice(["", "", "retry"]),
        faults=_faults(r, horizon),
        deeds=tuple(sorted((*_deeds(r, horizon), *_others(r, horizon)), key=lambda deed: deed.at)),
        bound=r.random() < 0.12 and mode is Mode.CASCADE and not dry_run,
        limit=r.choice([1, 2, 4]) if r.random() < 0.12 else 0,
        window=600.0 if r.random() < 0.1 else 0.0,
    )
    return _with_more(wanted, horizon)


def _with_more(wanted: Plan, horizon: int) -> Plan:
    """Return a plan; in some seeds it has a feature that concerns more than the project and its resources."""
    r = random.Random(f"more {wanted.seed}")
    kind = r.choices(["", "tree", "liens", "servers", "orphans"], [60, 14, 9, 9, 8])[0]
    if random.Random(f"purge {wanted.seed}").random() < PURGING:
        kind = "purge"
    elif random.Random(f"flooding {wanted.seed}").random() < FLOODING:
        return flooded(wanted)
    more: dict[str, Any] = {}
    deeds: list[Deed] = []
    if kind == "tree":
        services = wanted.services if len(wanted.services) <= 2 else wanted.services[:2]
        more = {"tree": r.choice(TREES), "services": services, "regions": 1, "bound": False}
        deeds = [Deed(_at(r, horizon), "child", r.random()) for _ in range(r.choice([0, 0, 1]))]
        deeds += [Deed(_at(r, horizon), "vanish", r.random()) for _ in range(r.choice([0, 0, 0, 1]))]
        deeds += [Deed(_at(r, horizon), r.choice(["cancel", "retry"]), r.random()) for _ in range(r.choice([0, 0, 1]))]
    elif kind == "liens":
        types = sorted(LIEN_TYPES[s] for s in wanted.services if s in LIEN_TYPES)
        obstacle = r.choice(["", "protected", "foreign"])
        more = {"lien_types": tuple(types), "mode": Mode.CASCADE, "dry_run": False, "obstacle": obstacle}
        more["fill"] = max(1, wanted.fill)
        more["ending"] = r.choice(["cancel", "mend", "force"]) if obstacle else wanted.ending
        deeds = [Deed(_at(r, horizon), "share", r.random()) for _ in range(r.choice([0, 1, 2]))]
    elif kind == "servers":
        services = ("compute", "network") if "compute" not in wanted.services else wanted.services
        more = {"services": services, "mode": Mode.CASCADE, "dry_run": False, "fill": max(1, wanted.fill)}
        more |= {"stop_servers": True, "window": 600.0, "disabled": False}
        what = ("switch", "switch", "restore", "cancel", "stop")
        deeds = [Deed(_at(r, 2 * horizon), r.choice(what), r.random()) for _ in range(r.choice([1, 2, 3]))]
    elif kind == "orphans":
        more = {"orphans": True, "obstacle": "", "bound": False}
        deeds = [Deed(_at(r, horizon), r.choice(["scan", "adopt", "create"]), r.random()) for _ in range(2)]
        deeds += [Deed(_at(r, 2 * horizon), "revive")] if r.random() < 0.2 else []
    elif kind == "purge":
        more, deeds = _purge(r, wanted, horizon)
    dated = _dated(wanted, horizon)
    more |= {"delay": 400.0} if dated else {}
    found = sorted((*wanted.deeds, *deeds, *dated, *_managed(wanted.seed, horizon)), key=lambda deed: deed.at)
    more["listening"] = random.Random(f"listening {wanted.seed}").random() < 0.3
    more["keystones"] = random.Random(f"keystones {wanted.seed}").choice([1, 2, 3])
    if random.Random(f"own caches {wanted.seed}").random() < OWN_CACHES:
        more |= {"own_caches": True, "keystones": max(2, more["keystones"])}
    secrets = "key-manager" in more.get("services", wanted.services)
    more["janitor"] = secrets and random.Random(f"janitor {wanted.seed}").random() < 0.5
    return dataclasses.replace(wanted, deeds=tuple(found), **more)


def _dated(wanted: Plan, horizon: int) -> list[Deed]:
    """Return what users do about the date of the request, in the seeds in which it has one."""
    r = random.Random(f"dated {wanted.seed}")
    if wanted.dry_run or wanted.bound or r.random() >= DATED:
        return []
    # Nothing takes effect before the date, so that the first deeds come before it.
    first = [
        Deed(r.randrange(1, 20), r.choice(["postpone", "postpone", "hasten", "cancel", "retry"])) for _ in range(2)
    ]
    return [*first, Deed(_at(r, horizon), r.choice(["postpone", "hasten", "request"]))]


def flooded(wanted: Plan) -> Plan:
    """Return a plan in which a domain manager requests many dry runs, and an admin one in another domain."""
    r = random.Random(f"flood {wanted.seed}")
    alone = {"obstacle": "", "ending": "", "bound": False, "limit": 0, "window": 0.0, "disabled": False, "faults": ()}
    world = {"mode": Mode.CASCADE, "dry_run": False, "services": ("network",), "regions": 1, "fill": 1}
    begin = r.randrange(60)
    deeds = (Deed(begin, "flood"), Deed(begin + r.randrange(1, 80), "other"))
    return dataclasses.replace(wanted, **{**alone, **world}, flood=6, places=r.choice([1, 2]), deeds=deeds)


def _purge(r: random.Random, wanted: Plan, horizon: int) -> tuple[dict[str, Any], list[Deed]]:
    """Return what differs in a plan of mode ``purge``, and its further deeds."""
    obstacle = r.choice(OBSTACLES) if r.random() < 0.2 else ""
    more: dict[str, Any] = {"mode": Mode.PURGE, "obstacle": obstacle, "ending": r.choice(["", "retry"])}
    more["fill"] = wanted.fill or r.choice([0, 1, 2])
    names = [*wanted.services, *(f"{s}.{t}" for s in wanted.services for t in SELECTABLE[s])]
    names += ["dns"] if obstacle == "uncovered" else []
    if r.random() < 0.6:
        more["selected"] = tuple(sorted(r.sample(names, min(len(names), r.choice([1, 1, 2, 3])))))
    more["tagged"] = r.random() < 0.3
    if "compute" in wanted.services and r.random() < 0.3:
        more |= {"stop_servers": True, "window": 600.0, "disabled": False}
    count = r.choice([0, 1, 2, 4]) if more["tagged"] else 0
    r = random.Random(f"criteria {wanted.seed}")
    selected = more.get("selected", ())
    free = [n for n in names if n not in selected and not any(each.startswith(f"{n}.") for each in selected)]
    if r.random() < 0.3 and free:
        more["skipped"] = (r.choice(free),)
    if r.random() < 0.5:
        more["further"] = tuple(sorted(r.sample(FURTHER, r.choice([1, 1, 2, 4]))))
        count = count or r.choice([0, 1, 2])
    return more, [Deed(_at(r, horizon), "untag", _size(r)) for _ in range(count)]


def _faults(r: random.Random, horizon: int) -> tuple[Fault, ...]:
    count = r.choice([0, 1, 2, 4, 8, 16])
    kinds = r.sample(sorted(FAULTS), r.choice([2, 5, len(FAULTS)]))
    found = [Fault(_at(r, horizon), r.choice(kinds), _size(r)) for _ in range(count)]
    return tuple(sorted(found, key=lambda fault: fault.at))


def _deeds(r: random.Random, horizon: int) -> tuple[Deed, ...]:
    count = r.choice([0, 0, 1, 2, 4, 8])
    kinds = r.choices(sorted(_LIKELY), [_LIKELY[name] for name in sorted(_LIKELY)], k=r.choice([2, 4, 8]))
    found = [Deed(_at(r, horizon), r.choice(kinds), _size(r)) for _ in range(count)]
    return tuple(sorted(found, key=lambda deed: deed.at))


def _others(r: random.Random, horizon: int) -> tuple[Deed, ...]:
    """Add holds, which end after a while or at the calm, and force, each in some seeds."""
    found: list[Deed] = []
    for _ in range(r.choice([0, 0, 0, 1, 2])):
        what, begin = r.choice(sorted(_HOLDS)), _at(r, horizon)
        found += [Deed(begin, what), *([Deed(begin + r.randrange(60), _HOLDS[what])] if r.random() < 0.7 else [])]
    if r.random() < 0.06:
        found.append(Deed(_at(r, horizon), "force"))
    return tuple(found)


def _managed(seed: int, horizon: int) -> list[Deed]:
    """Return the deeds of a domain manager, in some seeds."""
    r = random.Random(f"managed {seed}")
    if r.random() >= MANAGED:
        return []
    kinds = r.choices(sorted(_MANAGED), [_MANAGED[name] for name in sorted(_MANAGED)], k=r.choice([2, 4, 8, 12]))
    return [Deed(_at(r, horizon), what, _size(r)) for what in kinds]


def _at(r: random.Random, horizon: int) -> int:
    return int(r.random() * horizon)


def _size(r: random.Random) -> float:
    """Return a number below 1: it becomes the index of an item."""
    return min(round(r.random(), 3), 0.999)
