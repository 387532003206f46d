"""Keystone and a few services in memory, with what makes them hard: they wait, refuse, forget late and show too much.

The project under deletion is ``p``; ``b`` is a bystander. The orchestrator's user is ``me``. Others get tokens through
grants on ``p``; a service believes a token for as long as the longest cache lasts, and the members of this project are
always quick enough to have used theirs right before they lost them.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from cleanup_orchestrator.keystone import protocol
from tests.simulation.plan import Plan
from tests.simulation.scheduler import Simulation, Thread

PROJECT, BYSTANDER, OWN = "p", "b", "own"
ROLES = ("admin", "member", "reader")
GROUP_USERS = {"g": ("w",)}

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
RESIDUE = frozenset({"network.quota"})
SCOPED = frozenset({"key-manager.secret"})  #: only a token of the project sees them
SHARED_LISTS = frozenset({"image.image", "identity.credential"})  #: their listings show everybody's
FORCIBLE = frozenset({"network.port", "block-storage.volume", "image.image"})  #: types that have a force
ELSEWHERE = ""  #: the region of what is not regional


@dataclasses.dataclass(slots=True)
class Thing:
    """A resource."""

    id: str
    type: str  #: with its service: ``network.port``
    region: str
    owner: str | None
    born: int = 0  #: number of the effect before which it was made
    on: str = ""  #: what it hangs on: a port's network, a snapshot's volume
    device: str = ""  #: the server that uses it
    shared: bool = False
    gone_at: float = math.inf
    stubborn: int = 0  #: so many deletes are accepted and come to nothing
    stuck: bool = False  #: its state refuses every delete but a forced one


class Answer:
    """What a call is answered."""

    def __init__(self, status: int, body: Any = None) -> None:
        self.status_code, self._body, self.headers = status, body, {}
        self.content = b"" if body is None else b"{}"

    def json(self) -> Any:
        if self._body is None:
            raise ValueError("no body")
        return self._body


def _not_found() -> Answer:
    return Answer(404, {"error": {"code": 404, "message": "Could not find it"}})


class Cloud:
    """All of it."""

    def __init__(self, plan: Plan, simulation: Simulation) -> None:
        self.plan, self.simulation = plan, simulation
        self.rng = random.Random(f"cloud {plan.seed}")
        self.on_write: Callable[[Thread, str, str, Thing | None], None] = lambda *_: None
        self.exists, self.enabled, self.fence = True, not plan.disabled, ""
        self.fence_at = 0.0
        self.grants = {("users", "u", "member"), ("groups", "g", "member")}
        if plan.member:
            self.grants.add(("users", "me", "admin"))
        #: As everybody but the orchestrator left it.
        self.wanted_grants, self.wanted_enabled = set(self.grants), self.enabled
        self.tokens: dict[str, str] = {}  #: to their project; a revoked one is not there
        self.regions = tuple(f"R{n + 1}" for n in range(plan.regions))
        self.catalog = [(r, s) for s in plan.services if s != "identity" for r in self.regions]
        self.catalog.append((self.regions[0], "identity"))
        self.things: dict[tuple[str, str], dict[str, Thing]] = {}
        for service in plan.services:
            for type_ in TYPES[service]:
                for region in self.regions if service != "identity" else (ELSEWHERE,):
                    self.things[region, f"{service}.{type_}"] = {}
        self.down: dict[str, float] = {}  #: until when a service fails
        self.calmed = False
        self.gone_by_others = False
        #: (region, type) to when it was listed, and what of the project's was shown.
        self.looks: dict[tuple[str, str], list[tuple[float, frozenset[str]]]] = {key: [] for key in self.things}
        self.looked = dict.fromkeys(self.things, 0)  #: number of the effect at which it was listed last
        self.disabled_at = math.inf  #: when the orchestrator disabled it last
        self.given_up: set[str] = set()  #: others' things that they removed themselves
        self.reopened = 0  #: number of the effect before which somebody was let in again
        self._stale_from: float | None = None
        self.locked_at: float | None = None  #: since when nobody but the orchestrator is believed by Keystone
        self._numbers = 0
        self._fill()
        self._relock()
        if plan.disabled:
            self.locked_at = -math.inf

    # -- what is there
    def _fill(self) -> None:
        for region, name in self.things:
            for n in range(self.plan.fill):
                self._add(region, name, PROJECT).stubborn = int(self.plan.slow_deletes > 0 and n == 0)
            if name not in RESIDUE | SCOPED:
                self._add(region, name, BYSTANDER)
            if name in SHARED_LISTS:
                self._add(region, name, None)
            if name in RESIDUE:
                self._add(region, name, PROJECT)
        self._connect()
        self._obstruct()

    def _connect(self) -> None:
        """Let things of the project hang on each other."""
        for (region, name), things in self.things.items():
            mine = [t for t in things.values() if t.owner == PROJECT]
            parents = {"network.port": "network.network", "block-storage.snapshot": "block-storage.volume"}
            if name in parents:
                for thing, parent in zip(mine, self._mine(region, parents[name]), strict=False):
                    thing.on = parent.id
            if name in ("network.port", "block-storage.volume"):
                for thing, server in zip(mine, self._mine(region, "compute.server"), strict=False):
                    thing.device = server.id

    @property
    def obstacle(self) -> str:
        """The obstacle that is there: not each fits into each world."""
        fits = {
            "foreign": "network" in self.plan.services,
            "ownerless": any(n not in SHARED_LISTS | SCOPED | RESIDUE for _, n in self.things),
            "protected": any(n not in UNSHOWN for _, n in self.things),
            "stuck": any(n not in RESIDUE for _, n in self.things),
        }
        plan = self.plan.obstacle
        return plan if fits.get(plan, True) else "uncovered"

    def _obstruct(self) -> None:
        self.broken_at: tuple[str, str] | None = None
        self.waived = False
        region = self.regions[0]
        if self.obstacle == "foreign":
            net = self._add(region, "network.network", PROJECT)
            self._add(region, "network.port", BYSTANDER).on = net.id
        elif self.obstacle == "uncovered":
            self.catalog.append((region, "dns"))
        elif self.obstacle == "protected":
            self._add(*next(key for key in self.things if key[1] not in UNSHOWN), PROJECT).shared = True
        elif self.obstacle == "ownerless":
            self._add(*next(k for k in self.things if k[1] not in SHARED_LISTS | SCOPED | RESIDUE), None)
        elif self.obstacle == "stuck":
            mine = [t for things in self.things.values() for t in things.values() if t.owner == PROJECT]
            self.rng.choice(
                [t for t in mine if t.type not in RESIDUE] or [self._add(*next(iter(self.things)), PROJECT)]
            ).stuck = True
        elif self.obstacle == "broken":
            self.broken_at = next(iter(self.things))

    def mend(self) -> None:
        """Somebody removes what stands in the way."""
        self.waived = True  # what nobody answers for: the world records the waiver
        self.broken_at = None
        for (_, name), things in self.things.items():
            for thing in list(things.values()):
                thing.shared = thing.stuck = False
                if (thing.owner == BYSTANDER and thing.on) or (thing.owner is None and name not in SHARED_LISTS):
                    self.given_up.add(thing.id)
                    del things[thing.id]

    def empty(self) -> None:
        """A member removes all that the project has."""
        for things in self.things.values():
            for thing in [t for t in things.values() if t.owner == PROJECT and t.type not in RESIDUE]:
                del things[thing.id]

    def calm(self) -> None:
        """From now on nothing fails by itself."""
        self.down.clear()
        self.calmed = True
        for things in self.things.values():
            for thing in things.values():
                if self.obstacle != "protected":
                    thing.shared = False

    def _add(self, region: str, name: str, owner: str | None) -> Thing:
        self._numbers += 1
        short = name.split(".")[1]
        thing = Thing(f"{short}-{self._numbers}", name, region, owner, self.simulation.effects)
        self.things[region, name][thing.id] = thing
        return thing

    def _mine(self, region: str, name: str) -> list[Thing]:
        return [t for t in self._there(region, name) if t.owner == PROJECT]

    def _there(self, region: str, name: str) -> list[Thing]:
        """What a service would list, once what it is deleting is gone."""
        things = self.things.get((region, name))
        if not things:
            return []
        now = self.simulation.now
        for thing in [t for t in things.values() if t.gone_at <= now]:
            del things[thing.id]
        return list(things.values())

    def left(self) -> list[Thing]:
        """What keeps the project from being empty, whatever anybody can see of it."""
        return [
            thing
            for region, name in self.things
            if name not in RESIDUE
            for thing in self._there(region, name)
            if thing.owner == PROJECT or (thing.owner is None and name not in SHARED_LISTS)
        ]

    def of_others(self) -> frozenset[str]:
        """What must be there whatever happens: the bystander's, and what is nobody's."""
        return frozenset(t.id for things in self.things.values() for t in things.values() if t.owner != PROJECT)

    # -- who is let in
    @property
    def open(self) -> bool:
        """Whether Keystone gives others tokens for the project."""
        others = self.plan.inherited or any(who != "me" for _, who, _ in self.grants)
        return self.exists and self.enabled and not self.fence and others

    def _relock(self, locking: bool = False) -> None:
        """See what a change of the project means for who is let in.

        :param locking: it took something away. Keystone drops its token cache before it writes; so whoever was being
            validated meanwhile may be believed until the cache is dropped once more
        """
        now = self.simulation.now
        if self.open:
            if self.locked_at is not None:
                self.reopened = self.simulation.effects
            self.locked_at, self._stale_from = None, None
            return
        if locking and self.locked_at is None and self._stale_from is None and self.rng.random() < 0.4:
            self._stale_from = now + 1.9 * self.rng.random()
        if self.locked_at is None and self._stale_from is None:
            self.locked_at = now + (protocol.FENCE_MAX_AGE if self.fence else 0.0)

    def _flush(self) -> None:
        if self._stale_from is not None and self._stale_from <= self.simulation.now:
            self._stale_from = None

    def members_work(self) -> bool:
        """Whether some service still does what a member asks for."""
        return self.locked_at is None or self.simulation.now < self.locked_at + self.plan.settle

    # -- what others do
    def deed(self, what: str, size: float) -> bool:
        """Do it, if it can be done; whether it was."""
        mine = [t for (region, name) in self.things if name not in RESIDUE for t in self._mine(region, name)]
        moving = [t for t in mine if t.type not in UNSHOWN and t.gone_at == math.inf]
        pick = lambda items: items[int(size * len(items))]  # noqa: E731
        if what == "create":
            names = [key for key in self.things if key[1] not in RESIDUE]
            if not self.members_work():
                return False
            self._add(*pick(names), PROJECT)
        elif what == "remove":
            if not mine:
                return False
            thing = pick(mine)
            del self.things[thing.region, thing.type][thing.id]
        elif what in ("transfer", "share"):
            if not moving:
                return False
            thing = pick(moving)
            if what == "share":
                thing.shared = True
            else:
                thing.owner, thing.device, thing.on = BYSTANDER, "", ""
                for other in mine:  # nothing of the project hangs on it any more
                    other.device = "" if other.device == thing.id else other.device
                    other.on = "" if other.on == thing.id else other.on
        elif not self.exists:
            return False
        elif what == "enable":
            if self.enabled:
                return False
            self.enabled = self.wanted_enabled = True
            self._relock()
        elif what == "invite":
            grant = ("users", "guest", "member")
            self.grants.add(grant)
            self.wanted_grants.add(grant)
            self._relock()
        elif what == "unfence":
            if not self.fence:
                return False
            self.fence = ""
            self._relock()
        elif what == "oust":
            mine_here = {g for g in self.grants if g[1] == "me"}
            self.grants -= mine_here
            self.wanted_grants -= mine_here
            self._flush()
        elif what == "vanish":
            self.exists, self.gone_by_others = False, True
            self.grants.clear()
            self._stale_from = None  # with a project Keystone revokes its tokens, also those that it has cached as good
            self._relock()
        return True

    # -- the orchestrator's calls
    def serve(self, thread: Thread, token: str, method: str, url: str, body: Any, headers: Mapping[str, str]) -> Answer:
        """Let a call take effect."""
        path, _, query = url.partition("?")
        parts = path.strip("/").split("/")
        if parts[0] == "auth":
            return self._auth(thread, method, token, headers)
        if token not in self.tokens or not self._good(token):
            return Answer(401, {"error": {"code": 401, "message": "The token is not good"}})
        if parts[0] == "service":
            return self._service(thread, self.tokens[token], method, *parts[1:])
        return self._keystone(thread, method, parts, query, body)

    def _good(self, token: str) -> bool:
        project = self.tokens.get(token)
        if project != PROJECT:
            return project is not None
        return self.exists and self.enabled and any(who == "me" for _, who, _ in self.grants)

    def token(self, project: str) -> Answer:
        """Give the orchestrator a token."""
        roles = ["admin"]
        if project == PROJECT:
            roles = sorted(role for _, who, role in self.grants if who == "me")
            if not (self.exists and self.enabled and roles):
                return Answer(401, {"error": {"code": 401, "message": "no token for this project"}})
        self._numbers += 1
        token = f"token-{self._numbers}"
        self.tokens[token] = project
        return Answer(201, {"token": token, "roles": roles})

    def _auth(self, thread: Thread, method: str, token: str, headers: Mapping[str, str]) -> Answer:
        subject = headers["X-Subject-Token"]
        if method == "DELETE":
            self.on_write(thread, method, "token", None)
            return Answer(204 if self.tokens.pop(subject, None) else 404)
        fenced = bool(self.fence) and headers.get(protocol.CANARY_HEADER) == self.fence
        if not self._good(subject) or (fenced and self.simulation.now >= self.fence_at + protocol.FENCE_MAX_AGE):
            return _not_found()
        return Answer(200, {})

    def _keystone(self, thread: Thread, method: str, parts: list[str], query: str, body: Any) -> Answer:
        what = parts[0]
        if what == "services":
            types = sorted({service for _, service in self.catalog})
            return Answer(200, {"services": [{"id": t, "type": t, "name": t} for t in types]})
        if what == "endpoints":
            rows = [{"id": f"{s}@{r}", "service_id": s, "region_id": r} for r, s in self.catalog]
            return Answer(200, {"endpoints": rows})
        if what == "roles":
            wanted = query.removeprefix("name=") if query else ""
            return Answer(200, {"roles": [{"id": r, "name": r} for r in ROLES if wanted in ("", r)]})
        if what == "groups":
            return Answer(200, {"users": [{"id": u} for u in GROUP_USERS[parts[1]]]})
        if what == "role_assignments":
            return self._assignments(query)
        assert what == "projects" and parts[1] == PROJECT, parts
        if not self.exists:
            return _not_found()
        if len(parts) > 2:
            return self._grant(thread, method, parts)
        if method == "DELETE":
            self.on_write(thread, method, "project", None)
            self.exists = False
            self.grants.clear()
            self._relock()
            return Answer(204)
        if method == "PATCH":
            self._update(thread, body["project"])
        return Answer(200, {"project": self._project(query)})

    def _project(self, query: str) -> dict[str, Any]:
        options = {protocol.FENCE_OPTION: self.fence} if self.fence else {}
        row = {"id": PROJECT, "name": "P", "domain_id": "dom", "enabled": self.enabled, "options": options}
        if "subtree" in query:
            row["subtree"] = None
        if "parents" in query:
            row["parents"] = None
        return row

    def _update(self, thread: Thread, values: Mapping[str, Any]) -> None:
        if "enabled" in values:
            self.on_write(thread, "PATCH", f"enabled={values['enabled']}", None)
            self._flush()
            self.enabled = values["enabled"]
            self.disabled_at = self.disabled_at if self.enabled else self.simulation.now
            self._relock(locking=not self.enabled)
        elif protocol.FENCE_OPTION in values["options"]:
            fence = values["options"][protocol.FENCE_OPTION] or ""
            self.on_write(thread, "PATCH", f"fence={fence}", None)
            if fence and not self.fence:
                self.fence_at = self.simulation.now
            self.fence = fence
            self._relock()
        else:
            self.on_write(thread, "PATCH", "nothing", None)
            thread.saw["project"] = self.simulation.effects

    def _grant(self, thread: Thread, method: str, parts: list[str]) -> Answer:
        _, _, actor, who, _, role = parts
        grant = (actor, who, role)
        self.on_write(thread, method, "grant " + " ".join(grant), None)
        if method == "PUT":
            self.grants.add(grant)
            self._relock()
            return Answer(204)
        if grant not in self.grants:
            return _not_found()
        self._flush()
        self.grants.discard(grant)
        self._relock(locking=who != "me")
        return Answer(204)

    def _assignments(self, query: str) -> Answer:
        if "scope.project.id=" not in query:
            return Answer(200, {"role_assignments": []})
        if not self.exists:
            return _not_found()
        scope = {"project": {"id": PROJECT}}
        found: list[tuple[str, str, str]] = sorted(self.grants)
        if "effective" in query:
            users = {("users", w, r) for a, who, r in found for w in (GROUP_USERS[who] if a == "groups" else (who,))}
            found = sorted(users | ({("users", "boss", "member")} if self.plan.inherited else set()))
        rows = [{actor[:-1]: {"id": who}, "role": {"id": role}, "scope": scope} for actor, who, role in found]
        return Answer(200, {"role_assignments": rows})

    def _service(
        self, thread: Thread, project: str, method: str, region: str, name: str, id_: str = "", extra: str = ""
    ) -> Answer:
        region = "" if region == "-" else region
        if (region, name) == self.broken_at:
            return Answer(500, {"error": "it is broken"})
        there = self._there(region, name)
        if not id_:
            if name in SCOPED:
                there = [t for t in there if t.owner == project]
            elif not self.plan.leaky and name not in SHARED_LISTS:
                there = [t for t in there if t.owner in (PROJECT, None)]
            self.looked[region, name] = self.simulation.effects
            shown = frozenset(t.id for t in there if t.owner == PROJECT)
            self.looks[region, name].append((self.simulation.now, shown))
            return Answer(200, [_row(t) for t in there])
        thing = next((t for t in there if t.id == id_), None)
        if extra == "users":
            return Answer(200, [_row(t) for t in self._there(region, "network.port") if t.on == id_])
        if thing is None:
            return Answer(404, {"error": "it is not there"})
        if method == "GET":
            thread.saw[id_] = (thing.owner, thing.shared)
            return Answer(200, _row(thing))
        self.on_write(thread, method, name, thing)
        if extra == "force":
            thing.gone_at = min(thing.gone_at, self.simulation.now)
            return Answer(204)
        return self._delete(thing)

    def _delete(self, thing: Thing) -> Answer:
        if thing.stuck:
            return Answer(409, {"error": "its state is odd"})
        users = {"network.network": "network.port", "block-storage.volume": "block-storage.snapshot"}
        if thing.type in users and any(t.on == thing.id for t in self._there(thing.region, users[thing.type])):
            return Answer(409, {"error": "it is in use"})
        if thing.device and any(t.id == thing.device for t in self._there(thing.region, "compute.server")):
            return Answer(409, {"error": "a server uses it"})
        if thing.stubborn:
            thing.stubborn -= 1
            return Answer(202)
        after = 40.0 * self.rng.random() if self.rng.random() < self.plan.slow_deletes else 0.0
        thing.gone_at = min(thing.gone_at, self.simulation.now + after)
        if thing.type == "compute.server":  # takes its ports along
            for port in self._there(thing.region, "network.port"):
                if port.device == thing.id:
                    port.gone_at = min(port.gone_at, thing.gone_at)
        return Answer(204)


def _row(thing: Thing) -> dict[str, Any]:
    return {
        "id": thing.id,
        "name": thing.id,
        "project_id": thing.owner,
        "shared": thing.shared,
        "device": thing.device,
    }
