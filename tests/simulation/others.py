"""What cloud admins, and the manager of the project's domain, do in Keystone.

The manager does what Keystone's default policy allows him. He may open what locks a project, have a member create a
resource, and close it again as it was, so that the project looks as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cleanup_orchestrator.keystone import protocol
from tests.simulation.cloud import Cloud
from tests.simulation.keystone import DEAD, OURS, Hole, Project
from tests.simulation.keystone_api import ADMIN, CALLERS, MANAGER
from tests.support.scheduler import Process, Simulation

#: Chooses an item; ``None``: there are none.
Pick = Callable[[list[Any]], Any]

#: The roles by which the manager lets a member in again: on the project or on the domain.
FRIENDS = (("users", "friend", "member"), ("groups", "gang", "member"))
#: Most seconds from the lock to the moment at which one of them opens it.
_BEHIND = 120.0
#: The same from the moment at which the project is disabled.
_CLOSED = 30.0
#: Most seconds between his steps then.
_OPEN = 3.0
#: Seconds for which he waits until there is a lock.
_PATIENCE = 200


class Others:
    """The admins and the domain manager, whose process is never killed."""

    def __init__(self, cloud: Cloud, simulation: Simulation) -> None:
        self._cloud, self._keystone, self._simulation = cloud, cloud.keystone, simulation
        self._process = Process("others")
        self._holes: list[Callable[[], Any]] = []  #: each closes what the manager has opened, the latest last

    def deed(self, what: str, size: float) -> bool:
        """Carry out a deed, if it is possible; return whether it was done."""
        deed = getattr(self, f"_{what}", None)
        if deed is None:
            return self._cloud.deed(what, size)
        return bool(deed(lambda items: items[int(size * len(items))] if items else None))

    @property
    def busy(self) -> bool:
        """Whether one of them waits for a lock, or is about to close one."""
        return any(t.process is self._process and not t.over for t in self._simulation.threads)

    def calm(self) -> None:
        """Let the manager close what he has opened, and enable what he has disabled."""
        self._shut()
        for project in self._keystone.there():
            if not project.shut:
                continue
            self._fence(ADMIN, project, None)  # else Keystone refuses to enable it, with 409
            if self._update(ADMIN, project, enabled=True):
                project.shut, project.wanted_enabled = False, True

    def _update(self, caller: str, project: Project, **values: Any) -> bool:
        """PATCH a project; return whether Keystone did so."""
        return project.exists and self._keystone.update(CALLERS[caller], project, values) is None

    def _grant(self, caller: str, project: Project, grant: tuple[str, str, str], there: bool) -> bool:
        return project.exists and self._keystone.grant(CALLERS[caller], project, grant, there) is None

    def _fence(self, caller: str, project: Project, fence: str | None) -> bool:
        return self._update(caller, project, options={protocol.FENCE_OPTION: fence})

    # -- cloud admins
    def _as_admin(self, project: Project | None, act: Callable[[Project], bool]) -> bool:
        """Do something as an admin. If Keystone refuses that, the admin may lift the fence first."""
        if project is None:
            return False
        if act(project):
            return True
        if project.fence and self._cloud.rng.random() < 0.5 and self._fence(ADMIN, project, None):
            return act(project)
        return False

    def _lift(self, pick: Pick) -> bool:
        """At some moment behind the fence an admin lifts it, and a member creates a resource."""
        project = pick(self._keystone.there())
        if project is None:
            return False

        def lift() -> None:
            if project.fence and self._fence(ADMIN, project, None):
                self._simulation.note(f"an admin lifts the fence of {project.id}")
                self._use(project)

        self._behind_the_lock(project, lift)
        return True

    def _enable(self, pick: Pick) -> bool:
        project = pick([p for p in self._keystone.there() if not p.enabled])
        done = self._as_admin(project, lambda p: self._update(ADMIN, p, enabled=True))
        if done:
            project.wanted_enabled = True
        return done

    def _invite(self, pick: Pick) -> bool:
        project, grant = pick(self._keystone.there()), ("users", "guest", "member")
        done = self._as_admin(project, lambda p: self._grant(ADMIN, p, grant, True))
        if done:
            project.wanted_grants.add(grant)
        return done

    def _oust(self, pick: Pick) -> bool:
        def oust(project: Project) -> bool:
            own = {g for g in project.grants if g[1] in OURS}
            done = [g for g in sorted(own) if self._grant(ADMIN, project, g, False)]
            project.wanted_grants -= own if len(done) == len(own) else set()
            return len(done) == len(own)

        return self._as_admin(pick(self._keystone.there()), oust)

    def _vanish(self, pick: Pick) -> bool:
        """Keystone deletes only a project that has none below it."""
        project = pick([p for p in self._keystone.there() if not self._keystone.children(p.id)])
        return self._as_admin(project, lambda p: self._keystone.delete(CALLERS[ADMIN], p, {}) is None)

    def _unfence(self, pick: Pick) -> bool:
        project = pick([p for p in self._keystone.there() if p.fence])
        if project is not None:
            self._keystone.drop_options(project)
        return project is not None

    def _child(self, pick: Pick) -> bool:
        """An admin makes a project below one, which Keystone refuses where one above is disabled or has a fence."""
        keystone = self._keystone
        above = pick([p for p in keystone.there() if p.enabled and keystone.parent_enabled(p)])
        if above is None or len(keystone.projects) > 5:
            return False
        id_ = f"c{len(keystone.projects)}"
        if not self._as_admin(above, lambda p: keystone.create(CALLERS[ADMIN], p, id_) is None):
            return False
        self._cloud.begin(keystone.projects[id_])
        return True

    def _revive(self, _pick: Pick) -> bool:
        """Keystone's database is restored from a backup that has the dead project."""
        if not self._cloud.plan.orphans or DEAD in self._keystone.projects:
            return False
        self._cloud.remember(self._keystone.add(DEAD, ""))
        return True

    # -- the domain manager
    def _swap(self, pick: Pick, disabled: bool = False) -> bool:
        """At some moment behind the lock he opens it, has a member create a resource, and closes it again."""
        project, how = pick(self._keystone.there()), self._how(pick)
        if project is None:
            return False
        rng, sleep = self._cloud.rng, self._simulation.sleep
        use, close = (rng.choice([0.0, _OPEN * rng.random()]) for _ in range(2))

        def swap() -> None:
            done = self._open_lock(project, how)
            self._simulation.note(f"the manager opens {project.id}" + ("" if done else " (not possible)"))
            closing, self._holes = self._holes, []
            sleep(use)
            self._use(project)
            sleep(close)
            self._close(closing)
            if closing:
                self._simulation.note(f"the manager has closed {project.id} again")

        self._behind_the_lock(project, swap, disabled)
        return True

    def _reopen(self, pick: Pick) -> bool:
        """He does the same once the project is disabled."""
        return self._swap(pick, disabled=True)

    def _behind_the_lock(self, project: Project, act: Callable[[], None], disabled: bool = False) -> None:
        """Act once the project is locked, or once it is disabled, at some moment until it is removed."""
        begin = (_CLOSED if disabled else _BEHIND) * self._cloud.rng.random()

        def wait() -> None:
            for _ in range(_PATIENCE):
                if not (project.enabled if disabled else self._keystone.open(project)):
                    break
                self._simulation.sleep(1.0)
            self._simulation.sleep(begin)
            if project.exists and not self._keystone.open(project):
                act()

        self._simulation.spawn(self._process, "waits", wait)

    def _open(self, pick: Pick) -> bool:
        project = pick(self._keystone.there())
        return project is not None and self._open_lock(project, self._how(pick))

    def _shut(self, _pick: Pick | None = None) -> bool:
        closing, self._holes = self._holes, []
        self._close(closing)
        return bool(closing)

    def _disable(self, pick: Pick) -> bool:
        project = pick([p for p in self._keystone.there() if p.enabled])
        if project is None or not self._update(MANAGER, project, enabled=False):
            return False
        project.wanted_enabled, project.shut, project.blurred = False, True, True
        return True

    def _bar(self, pick: Pick) -> bool:
        """He sets a fence, of no deletion."""
        project = pick(self._keystone.there())
        return project is not None and self._fence(MANAGER, project, "00000000-0000-4000-8000-00000000dead")

    def _tag(self, pick: Pick) -> bool:
        project = pick(self._keystone.there())
        return project is not None and self._update(MANAGER, project, tags=["mine"])

    def _drop(self, pick: Pick) -> bool:
        """He deletes a project."""
        project = pick(self._keystone.there())
        return project is not None and self._keystone.delete(CALLERS[MANAGER], project, {}) is None

    @staticmethod
    def _how(pick: Pick) -> str:
        how: str = pick(["users", "groups", "inherited"])
        return how

    def _use(self, project: Project) -> None:
        """Have a member create a resource, if some service accepts his token."""
        if project.exists and self._keystone.members_work(project):
            self._cloud.create_in(project)

    def _close(self, closing: list[Callable[[], Any]]) -> None:
        if not closing:
            return
        hole = next((h for h in self._keystone.holes if not h.closed), None)
        self._keystone.opening = hole
        for close in reversed(closing):
            close()
        self._keystone.opening = None
        if hole is not None:
            self._keystone.close_hole(hole)

    def _open_lock(self, project: Project, how: str) -> bool:
        """Do what gives members access to a project again; return whether anything was done.

        :param how: by which role, if they have none any more
        """
        keystone = self._keystone
        if any(not hole.closed for hole in keystone.holes):
            return False  # one after the other
        since = {p.id: keystone.locked_since(p) for p in keystone.there()}
        keystone.opening = hole = Hole({id_: at for id_, at in since.items() if at is not None})
        opened = self._opened(project, how)
        keystone.opening = None
        if opened and self._cloud.plan.driver != "fence":
            keystone.holes.append(hole)
        return opened

    def _opened(self, project: Project, how: str) -> bool:
        before = len(self._holes)
        if fence := project.fence:
            if not self._fence(MANAGER, project, None):
                return False
            self._holes.append(lambda: self._fence(MANAGER, project, fence))
        if not project.enabled and self._update(MANAGER, project, enabled=True):
            wanted, project.wanted_enabled, project.blurred = project.wanted_enabled, True, True
            self._holes.append(lambda: self._disable_again(project, wanted))
        if project.enabled and not self._keystone.open(project):
            self._let_in(project, how)
        return len(self._holes) > before

    def _disable_again(self, project: Project, wanted: bool) -> None:
        if self._update(MANAGER, project, enabled=False):
            project.wanted_enabled, project.shut = wanted, True

    def _let_in(self, project: Project, how: str) -> None:
        """Give a role to a user, to a group, or on the domain."""
        grant = FRIENDS[how == "groups"]
        if how == "inherited":
            if self._keystone.grant_on_domain(grant, True):
                self._holes.append(lambda: self._keystone.grant_on_domain(grant, False))
        elif self._grant(MANAGER, project, grant, True):
            project.wanted_grants.add(grant)
            project.blurred_grants.add(grant)
            self._holes.append(lambda: self._take(project, grant))

    def _take(self, project: Project, grant: tuple[str, str, str]) -> None:
        project.wanted_grants.discard(grant)
        self._grant(MANAGER, project, grant, False)
