"""A Keystone with several processes that disagree, and the drain drivers before it: the simulation's, in virtual time.

No call takes any time, so that only the waits of a driver let the processes come to know of a change. The load balancer
gives the calls to the processes in turn.
"""

from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.drain import base, fence, load
from tests.simulation.cloud import Cloud
from tests.simulation.keystone import PROJECT
from tests.simulation.keystone_processes import KeystoneProcess
from tests.simulation.plan import Plan
from tests.simulation.setting import simulated
from tests.simulation.wire import SimulatedClouds
from tests.support import scheduler

MEMBER = ("users", "u", "member")
DELETION = "00000000-0000-4000-8000-000000000001"


class Raced:
    """Random numbers with which a validation is under way at each change, and ends as late as it can."""

    def __init__(self):
        self._left = [0.0, 0.999]

    def random(self):
        self._left.append(self._left.pop(0))
        return self._left[-1]


class Fenceless(KeystoneProcess):
    """A process that does not serve the part of this package."""

    def read_at(self, now):
        return -1.0


class Stale(KeystoneProcess):
    """A process that shows a project as enabled, whatever other processes write."""

    def copy(self, project_id, now):
        return {"id": project_id, "name": "P", "domain_id": "dom", "options": {}, "enabled": True, "parent_id": "dom"}


class Installation:
    """The project ``p`` with two members, in a Keystone with ``processes`` processes.

    :param differs: the class of one of the processes, and its number
    :param raced: whether a validation is under way at each change
    """

    def __init__(self, driver="revoke", processes=3, differs=None, raced=False, **plan):
        self.plan = Plan(1, driver=driver, keystones=processes, member=True, stick=1.0, settle=300.0, **plan)
        self.simulation = scheduler.Simulation(1, 1.0)
        self.cloud = Cloud(self.plan, self.simulation)
        self.keystone = self.cloud.keystone
        self.keystone.in_turn = True
        self.project = self.keystone.projects[PROJECT]
        self.intended = []
        if differs:
            kind, number = differs
            self.keystone.processes[number] = kind(self.simulation.rng)
        if raced:
            self.keystone.rng = Raced()
        self._clouds = SimulatedClouds(self.cloud)

    def do(self, call):
        """Return what a call returns that is given a context and the driver; raise what it raises."""
        probes = [(module, "PROBES", module.PROBES) for module in (base, fence)]
        no_time = (scheduler, "COSTS", dict.fromkeys(scheduler.COSTS, (0.0, 0.0)))
        driver, found = load(self.plan.driver), []

        def run():
            try:
                found.append((call(self.context(), driver), None))
            except Exception as error:
                found.append((None, error))

        with simulated((*probes, no_time, (base, "concurrent", scheduler.Concurrent))):
            before = getattr(scheduler.Active, "simulation", None)
            scheduler.Active.simulation = self.simulation
            self.simulation.spawn(scheduler.Process("worker"), "t", run)
            self.simulation.run(lambda: bool(found), 10_000)
            scheduler.Active.simulation = before
        [(result, error)] = found
        if error is not None:
            raise error
        return result

    def context(self):
        allowed = lambda *_: None  # noqa: E731
        projects = Projects(self._clouds.identity(self._clouds.session(self._clouds.admin_auth(), allowed)))
        return base.DrainContext(
            DELETION, PROJECT, "me", self._clouds, projects, allowed, lambda *what: self.intended.append(what)
        )

    @property
    def lets_members_in(self):
        """Whether some process accepts a token of a member of the project."""
        return self.project.locked_at is None or self.project.locked_at > self.simulation.now

    def fences(self):
        """Return the fence of the project as each process has read it."""
        return [self.keystone._fence_in(process, self.project) for process in self.keystone.processes]
