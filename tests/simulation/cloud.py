"""A few services in memory that delete slowly, refuse deletes, use stale caches, and ignore list filters.

Projects and tokens are in ``keystone``. ``b`` is a bystander, and ``x`` a project that Keystone does not know.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from cleanup_orchestrator.core.deletion import Mode
from cleanup_orchestrator.drain.routes import OTHER_VERSIONS
from tests.simulation.janitors import Janitors, is_janitor
from tests.simulation.keystone import BYSTANDER, DEAD, PROJECT, Answer, Hole, Project, Selected, not_found
from tests.simulation.keystone_api import KeystoneApi
from tests.simulation.plan import Plan
from tests.support.scheduler import Simulation, Thread

#: Types by service. All can be shown but for those in UNSHOWN.
TYPES = {
    "compute": ("server",),
    "network": ("port", "network", "quota"),
    "block-storage": ("snapshot", "volume"),
    "image": ("image",),
    "key-manager": ("secret",),
    "identity": ("credential",),
}
UNSHOWN = frozenset({"network.quota", "key-manager.secret"})
PROJECT_SETTINGS = frozenset({"network.quota"})
SCOPED = frozenset({"key-manager.secret"})  #: only a token of the project sees them
SHARED_LISTS = frozenset({"image.image", "identity.credential"})  #: their listings show resources of all projects
FORCIBLE = frozenset({"network.port", "block-storage.volume", "image.image"})  #: types with a forced delete
SERVER = "compute.server"
TAG = "temporary"  #: the tag by which resources are selected
KEEP = "keep"  #: the tag by which resources are not selected
NAMES, NOT_NAMES = "test-*", "*-prod"  #: the names by which resources are selected, and by which they are not
OLD, NOW, YOUNG = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z"  #: of last changes
ELSEWHERE = ""  #: the region of what is not regional
EVERYBODY = "*"  #: stands for a listing over all projects


@dataclasses.dataclass(slots=True)
class Thing:
    """A resource."""

    id: str
    type: str  #: with its service: ``network.port``
    region: str
    owner: str | None
    born: int = 0  #: number of the effect before which it was made
    on: str = ""  #: what it depends on: the network of a port, the volume of a snapshot
    device: str = ""  #: the server that uses it
    hole: Hole | None = None  #: the opened lock behind which a member made it
    shared: bool = False
    tagged: bool = False
    fails: str = ""  #: the criterion of ``plan.FURTHER`` that it does not meet; empty: it meets those of the plan
    used_since: int | None = None  #: number of the effect since which it is shared, or used by others
    gone_at: float = math.inf
    stubborn: int = 0  #: number of deletes that are accepted without effect
    stuck: bool = False  #: its state refuses every delete but a forced one
    running: bool = False  #: of a server
    wanted_running: bool = False  #: the state in which others than the orchestrator left it
    #: Whether others stopped the server after the orchestrator had read it as running, and before its own stop arrived,
    #: if it ever did.
    stopped_first: bool = False
    busy_until: float = 0.0  #: time at which an accepted stop takes effect


class Cloud:
    """The services, over a Keystone."""

    def __init__(self, plan: Plan, simulation: Simulation) -> None:
        self.plan, self.simulation = plan, simulation
        self.rng = random.Random(f"cloud {plan.seed}")
        self.on_write: Callable[[Thread, str, str, str, Thing | None], None] = lambda *_: None
        #: Whether it is on record that the orchestrator was going to stop a server.
        self.stop_recorded: Callable[[Thing], bool] = lambda _: False
        self.keystone = KeystoneApi(plan, simulation, self.rng, lambda *what: self.on_write(*what))
        self.janitors = Janitors(self.keystone, lambda *what: self.on_write(*what))
        self.regions = tuple(f"R{n + 1}" for n in range(plan.regions))
        self.keystone.catalog += [(r, s) for s in plan.services if s != "identity" for r in self.regions]
        self.keystone.catalog.append((self.regions[0], "identity"))
        self.things: dict[tuple[str, str], dict[str, Thing]] = {}
        for service in plan.services:
            for type_ in TYPES[service]:
                for region in self.regions if service != "identity" else (ELSEWHERE,):
                    self.things[region, f"{service}.{type_}"] = {}
        self.down: dict[str, float] = {}  #: until when a service fails
        self.calmed = False
        self.given_up: set[str] = set()  #: resources of others that these removed themselves
        self._numbers = 0
        self._fill()

    # -- what is there
    def _fill(self) -> None:
        for project in self.keystone.projects.values():
            self.remember(project)
        for region, name in self.things:
            self._furnish(PROJECT, region, name, self.plan.fill)
            if name not in PROJECT_SETTINGS | SCOPED:
                self._add(region, name, BYSTANDER)
            if name in SHARED_LISTS:
                self._add(region, name, None)
            for child in list(self.keystone.projects)[1:]:
                self._furnish(child, region, name, min(self.plan.fill, 1))
            if self.plan.orphans and name not in SCOPED:
                self._furnish(DEAD, region, name, 1)
        for owner in (*self.keystone.projects, DEAD):
            self._connect(owner)
        self._obstruct()

    def remember(self, project: Project) -> None:
        """Begin to record when the resources of the project are listed."""
        project.inventories = {key: [] for key in self.things}
        project.listed_at = dict.fromkeys(self.things, 0)
        project.selections = {key: [] for key in self.things}

    def begin(self, project: Project) -> None:
        """Give a new project a resource."""
        self.remember(project)
        self._furnish(project.id, *next(iter(self.things)), 1)

    def _furnish(self, owner: str, region: str, name: str, count: int) -> None:
        for n in range(count):
            thing = self._add(region, name, owner)
            thing.stubborn = int(self.plan.slow_deletes > 0 and n == 0)
            thing.running = thing.wanted_running = name == SERVER and self.rng.random() < 0.8
        if name in PROJECT_SETTINGS:
            self._add(region, name, owner)

    def _connect(self, owner: str) -> None:
        """Let resources of a project depend on each other."""
        for (region, name), things in self.things.items():
            mine = [t for t in things.values() if t.owner == owner]
            parents = {"network.port": "network.network", "block-storage.snapshot": "block-storage.volume"}
            if name in parents:
                for thing, parent in zip(mine, self.mine(region, parents[name], owner), strict=False):
                    thing.on = parent.id
            if name in ("network.port", "block-storage.volume"):
                for thing, server in zip(mine, self.mine(region, SERVER, owner), strict=False):
                    thing.device = server.id

    @property
    def obstacle(self) -> str:
        """Return the obstacle of this run: not every world can have every obstacle."""
        fits = {
            "foreign": "network" in self.plan.services,
            "ownerless": any(n not in SHARED_LISTS | SCOPED | PROJECT_SETTINGS for _, n in self.things),
            "protected": any(n not in UNSHOWN for _, n in self.things),
            "stuck": any(n not in PROJECT_SETTINGS for _, n in self.things),
        }
        plan = self.plan.obstacle
        return plan if fits.get(plan, True) else "uncovered"

    def _obstruct(self) -> None:
        self.broken_at: tuple[str, str] | None = None
        self.waived = False
        region, owners = self.regions[0], list(self.keystone.projects)
        owner = owners[0] if len(owners) == 1 else self.rng.choice(owners)
        if self.obstacle == "foreign":
            net = self._add(region, "network.network", owner)
            net.used_since = net.born
            self._add(region, "network.port", BYSTANDER).on = net.id
        elif self.obstacle == "uncovered":
            self.keystone.catalog.append((region, "dns"))
        elif self.obstacle == "protected":
            thing = self._add(*next(key for key in self.things if key[1] not in UNSHOWN), owner)
            thing.shared, thing.used_since = True, thing.born
        elif self.obstacle == "ownerless":
            self._add(*next(k for k in self.things if k[1] not in SHARED_LISTS | SCOPED | PROJECT_SETTINGS), None)
        elif self.obstacle == "stuck":
            mine = [t for things in self.things.values() for t in things.values() if t.owner == owner]
            self.rng.choice(
                [t for t in mine if t.type not in PROJECT_SETTINGS] or [self._add(*next(iter(self.things)), owner)]
            ).stuck = True
        elif self.obstacle == "broken":
            self.broken_at = next(iter(self.things))

    def mend(self) -> None:
        """Remove the obstacle."""
        self.waived = True  # an unsupported service: the world records the waiver
        self.broken_at = None
        for (_, name), things in self.things.items():
            for thing in list(things.values()):
                thing.shared, thing.stuck, thing.used_since = False, False, None
                if (thing.owner == BYSTANDER and thing.on) or (thing.owner is None and name not in SHARED_LISTS):
                    self.given_up.add(thing.id)
                    del things[thing.id]

    def empty(self) -> None:
        """Have members remove all that their projects have."""
        for things in self.things.values():
            for thing in [
                t for t in things.values() if t.owner in self.keystone.projects and t.type not in PROJECT_SETTINGS
            ]:
                del things[thing.id]

    def calm(self) -> None:
        """Let nothing fail by itself from now on."""
        self.down.clear()
        self.calmed = True
        self.keystone.share_caches()
        for things in self.things.values():
            for thing in things.values():
                if thing.shared and self.obstacle != "protected":
                    thing.shared = False
                    thing.used_since = thing.used_since if self._used_by_others(thing) else None

    def _used_by_others(self, network: Thing) -> bool:
        return any(port.on == network.id and port.owner != network.owner for port in self._ports(network.region))

    def _ports(self, region: str) -> list[Thing]:
        return list(self.things.get((region, "network.port"), {}).values())

    def _add(self, region: str, name: str, owner: str | None) -> Thing:
        self._numbers += 1
        short = name.split(".")[1]
        thing = Thing(f"{short}-{self._numbers}", name, region, owner, self.simulation.effects)
        thing.tagged = self.plan.tagged and self.rng.random() < 0.5
        if self.plan.further:
            chance = random.Random(f"{self.plan.seed} {thing.id}")
            thing.fails = chance.choice(self.plan.further) if chance.random() < 0.35 else ""
        self.things[region, name][thing.id] = thing
        return thing

    def selects(self, thing: Thing) -> bool:
        """Whether a resource is selected now; in every mode but ``purge``, each is."""
        by_tag = self.plan.tagged and self.plan.mode is Mode.PURGE
        further = bool(thing.fails) and self.plan.mode is Mode.PURGE
        return self.plan.selects(thing.type) and (thing.tagged or not by_tag) and not further

    def mine(self, region: str, name: str, owner: str) -> list[Thing]:
        """Return what a project has of a type."""
        return [t for t in self.there(region, name) if t.owner == owner]

    def there(self, region: str, name: str) -> list[Thing]:
        """Return what a service would list, once what it is deleting is gone."""
        things = self.things.get((region, name))
        if not things:
            return []
        now = self.simulation.now
        for thing in [t for t in things.values() if t.gone_at <= now]:
            del things[thing.id]
        return list(things.values())

    def of(self, owner: str) -> list[Thing]:
        """Return all that a project has, but for what goes with it."""
        return [
            t for region, name in self.things if name not in PROJECT_SETTINGS for t in self.mine(region, name, owner)
        ]

    def left(self, owner: str) -> list[Thing]:
        """Return what keeps a project from being empty, whether or not it can be seen."""
        return [
            thing
            for region, name in self.things
            if name not in PROJECT_SETTINGS
            for thing in self.there(region, name)
            if thing.owner == owner or (thing.owner is None and name not in SHARED_LISTS)
        ]

    def of_others(self) -> frozenset[str]:
        """Return the resources that must never be deleted: those of the bystander, and those without an owner."""
        things = [t for things in self.things.values() for t in things.values()]
        return frozenset(t.id for t in things if t.owner not in (*self.keystone.projects, DEAD))

    # -- what others do
    def deed(self, what: str, size: float) -> bool:
        """Carry out a deed, if it is possible; return whether it was done."""
        return bool(getattr(self, f"_{what}")(lambda items: items[int(size * len(items))] if items else None))

    def _all(self) -> list[Thing]:
        """Return what all projects have."""
        owners = self.keystone.projects
        ordinary = [key for key in self.things if key[1] not in PROJECT_SETTINGS]
        return [t for owner in owners for region, name in ordinary for t in self.mine(region, name, owner)]

    def _create(self, pick: Callable[[list[Any]], Any]) -> bool:
        keys = [key for key in self.things if key[1] not in PROJECT_SETTINGS]
        projects = [p.id for p in self.keystone.projects.values() if self.keystone.members_work(p)]
        wanted = pick([(key, id_) for key in keys for id_ in projects])
        if wanted is None:
            return False
        self._made(*wanted[0], wanted[1])
        return True

    def create_in(self, project: Project) -> Thing:
        """Have a member create a resource in a project."""
        keys = [key for key in self.things if key[1] not in PROJECT_SETTINGS]
        return self._made(*self.rng.choice(keys), project.id)

    def _made(self, region: str, name: str, owner: str) -> Thing:
        thing = self._add(region, name, owner)
        thing.running = thing.wanted_running = thing.type == SERVER
        thing.hole = self.keystone.hole_of(self.keystone.projects[owner])
        return thing

    def _remove(self, pick: Callable[[list[Any]], Any]) -> bool:
        thing = pick(self._all())
        if thing is not None:
            del self.things[thing.region, thing.type][thing.id]
        return thing is not None

    def _moving(self) -> list[Thing]:
        return [t for t in self._all() if t.type not in UNSHOWN and t.gone_at == math.inf]

    def _share(self, pick: Callable[[list[Any]], Any]) -> bool:
        thing = pick(self._moving())
        if thing is not None and not thing.shared:
            thing.shared = True
            thing.used_since = self.simulation.effects if thing.used_since is None else thing.used_since
        return thing is not None

    def _untag(self, pick: Callable[[list[Any]], Any]) -> bool:
        ways = [way for way in self.plan.further if way != "updated_before"]
        thing = pick([t for t in self._moving() if t.tagged or (ways and not t.fails)])
        if thing is not None and thing.tagged:
            thing.tagged = False
        elif thing is not None:
            thing.fails = ways[0]
        return thing is not None

    def _transfer(self, pick: Callable[[list[Any]], Any]) -> bool:
        thing = pick(self._moving())
        if thing is None:
            return False
        others, thing.owner, thing.device, thing.on = self._all(), BYSTANDER, "", ""
        for other in others:  # no resource of the project depends on it any more
            other.device = "" if other.device == thing.id else other.device
            other.on = "" if other.on == thing.id else other.on
        return True

    def _switch(self, pick: Callable[[list[Any]], Any]) -> bool:
        """An admin stops a server that runs, or starts one that does not."""
        servers = [t for t in self._all() if t.type == SERVER and t.running is t.wanted_running and not self._busy(t)]
        server = pick(servers)
        if server is not None:
            server.stopped_first |= server.running and self.stop_recorded(server)
            server.running = server.wanted_running = not server.running
        return server is not None

    # -- the orchestrator's calls
    def serve(self, thread: Thread, token: str, method: str, url: str, body: Any, headers: Mapping[str, str]) -> Answer:
        """Let a call take effect."""
        path, _, query = url.partition("?")
        parts = path.strip("/").split("/")
        keystone = self.keystone
        if parts[0] == "auth":
            return keystone.auth(thread, method, headers)
        if parts[0] in OTHER_VERSIONS:
            return not_found()
        if token not in keystone.tokens or not keystone.good(token):
            return Answer(401, {"error": {"code": 401, "message": "The token is not good"}})
        if parts[0] == "users":
            return self.janitors.serve(thread, method, parts, query, body)
        if parts[0] != "service":
            return keystone.serve(thread, method, parts, query, body, headers)
        region = "" if parts[1] == "-" else parts[1]
        if (region, parts[2]) == self.broken_at:
            return Answer(500, {"error": "it is broken"})
        if parts[2] in SCOPED and self.plan.janitor and not is_janitor(keystone.users[token]):
            return Answer(403, {"error": "an admin is not shown whose they are"})
        if len(parts) == 3:
            return self._listing(region, parts[2], query.removeprefix("project="), keystone.tokens[token])
        return self._one(thread, method, region, *parts[2:])

    def _listing(self, region: str, name: str, project_id: str, scope: str) -> Answer:
        there = self.there(region, name)
        if name in SCOPED:
            there = [t for t in there if t.owner == scope]
        elif not self.plan.leaky and name not in SHARED_LISTS and project_id != EVERYBODY:
            there = [t for t in there if t.owner in (project_id, None)]
        project = self.keystone.projects.get(project_id)
        if project is not None:
            project.listed_at[region, name] = self.simulation.effects
            shown = frozenset(t.id for t in there if t.owner == project_id)
            project.inventories[region, name].append((self.simulation.now, shown))
            strays = () if name in SHARED_LISTS else (None,)
            ids = frozenset(t.id for t in there if t.owner in (project_id, *strays) and self.selects(t))
            project.selections[region, name].append(
                Selected(self.simulation.now, self.keystone.locked_since(project), ids)
            )
        return Answer(200, [self._row(t) for t in there])

    def _one(self, thread: Thread, method: str, region: str, name: str, id_: str, extra: str = "") -> Answer:
        thing = next((t for t in self.there(region, name) if t.id == id_), None)
        if extra == "users":
            return Answer(200, [self._row(t) for t in self.there(region, "network.port") if t.on == id_])
        if thing is None:
            return Answer(404, {"error": "it is not there"})
        if method == "GET":
            thread.saw[id_] = (thing.owner, thing.shared)
            thread.saw["selected", id_] = self.selects(thing)
            return Answer(200, self._row(thing))
        self.on_write(thread, method, f"{name} {extra}".strip(), "", thing)
        if extra in ("stop", "start"):
            return self._turn(thing, extra == "start")
        if extra == "force":
            thing.gone_at = min(thing.gone_at, self.simulation.now)
            return Answer(204)
        return self._delete(thing)

    def _busy(self, thing: Thing) -> bool:
        return thing.busy_until > self.simulation.now

    def _turn(self, server: Thing, on: bool) -> Answer:
        if self._busy(server) or server.running is on:
            server.stopped_first |= not on and not server.wanted_running
            return Answer(409, {"error": "its state does not allow that"})
        server.running = on
        if not on and self.rng.random() < 0.5:
            server.busy_until = self.simulation.now + 5.0 * self.rng.random()
        return Answer(202)

    def _delete(self, thing: Thing) -> Answer:
        if thing.stuck:
            return Answer(409, {"error": "its state is odd"})
        users = {"network.network": "network.port", "block-storage.volume": "block-storage.snapshot"}
        if thing.type in users and any(t.on == thing.id for t in self.there(thing.region, users[thing.type])):
            return Answer(409, {"error": "it is in use"})
        if thing.device and any(t.id == thing.device for t in self.there(thing.region, SERVER)):
            return Answer(409, {"error": "a server uses it"})
        if thing.stubborn:
            thing.stubborn -= 1
            return Answer(202)
        after = 40.0 * self.rng.random() if self.rng.random() < self.plan.slow_deletes else 0.0
        thing.gone_at = min(thing.gone_at, self.simulation.now + after)
        if thing.type == SERVER:  # deletes its ports as well
            for port in self.there(thing.region, "network.port"):
                if port.device == thing.id:
                    port.gone_at = min(port.gone_at, thing.gone_at)
        return Answer(204)

    def _row(self, thing: Thing) -> dict[str, Any]:
        run = "busy" if self._busy(thing) else "on" if thing.running else "off"
        name = thing.id if thing.fails == "names" else f"test-{thing.id}"
        name += "-prod" if thing.fails == "not_names" else ""
        return {
            "id": thing.id,
            "name": name,
            "project_id": thing.owner,
            "shared": thing.shared,
            "device": thing.device,
            "tags": [TAG] * thing.tagged + [KEEP] * (thing.fails == "not_tags"),
            "updated_at": YOUNG if thing.fails == "updated_before" else OLD,
            "run": run,
        }
