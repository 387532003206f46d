"""The access step: who gives the janitor its role."""

import dataclasses
import types

import pytest

from cleanup_orchestrator.cloud.janitors import Janitor
from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, Token
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import NoJanitor, NoProjectToken, Stopped
from cleanup_orchestrator.plugins.base import ResourceType
from cleanup_orchestrator.worker.steps import RUNNERS
from cleanup_orchestrator.worker.steps.context import StepContext
from tests.unit.world import deletion, sweep_step

MODULE = ResourceType("module", lambda *_: (), None, token=Token.MEMBER)
MODULES = sweep_step("database.module", token=Token.MEMBER)
GRANT = {"actor": "users", "actor_id": "janitor", "role_id": "id-member"}
USER = {"name": "cleanup-janitor-d", "domain_id": "dom"}
MADE = [("janitor_made", USER), ("made", "janitor"), ("grant_added", GRANT), ("grant", "janitor", "id-member")]
ROLE = ("janitor", "member")


class Cloud:
    """Keystone with a project, the orchestrator's user ``me`` and the janitor, as both their sessions see it."""

    def __init__(self, *grants, secret="s", refused=None, enabled=True, more=()):
        self.grants, self.secret, self.enabled, self.more = {("me", "admin"), *grants}, secret, enabled, set(more)
        self.refused, self.did, self.users = refused, [], self

    # -- as clouds
    def observed_by(self, _made):
        return self

    def user_id(self):
        return "me"

    def janitor(self, deletion_id):
        return Janitor(f"cleanup-janitor-{deletion_id}", "dom", "derived") if self.secret else None

    def janitor_id(self):
        return "janitor" if any(user == "janitor" for user, _ in self.grants) else ""

    def make(self, _janitor, _description):
        if self.refused:
            raise self.refused
        self.did.append(("made", "janitor"))
        return "janitor"

    def project_auth(self, _project_id, fresh=False):
        pass

    def project_roles(self, project_id):
        self.project_session(project_id)
        return frozenset({"admin"})

    def project_session(self, _project_id, guard=read_only):
        if not self.enabled:
            raise NoProjectToken("Keystone issues no token for the project (HTTP 401)")
        return ("me", guard)

    def is_janitor(self, _janitor, _user_id):
        return True

    def janitor_session(self, _janitor, _user_id, _project_id, guard):
        roles = {role for user, role in self.grants if user == "janitor"}
        if not (self.enabled and roles):
            raise NoProjectToken("HTTP 401")
        return types.SimpleNamespace(whose="janitor", guard=guard), frozenset(roles | self.more)

    # -- as projects
    def role_id(self, name):
        return f"id-{name}"

    def implied_roles(self, role_ids):
        return frozenset(role_id.removeprefix("id-") for role_id in role_ids)

    def assignments(self, project_id):
        scope = {"project": {"id": project_id}}
        return [{"user": {"id": u}, "role": {"id": f"id-{r}"}, "scope": scope} for u, r in sorted(self.grants)]

    def assignments_of(self, user_id):
        return [row for row in self.assignments("p") if row["user"]["id"] == user_id]

    def groups_of(self, _user_id):
        return ()

    def grant(self, _project_id, actor, actor_id, role_id):
        self.did.append(("grant", actor_id, role_id))
        self.grants.add((actor_id, role_id.removeprefix("id-")))

    def context(self, *steps, driver="revoke", record=None, **values):
        """Return the context of an access step of a deletion that has these steps."""
        conf = types.SimpleNamespace(
            drain=types.SimpleNamespace(project_role="admin", driver=driver),
            janitor=types.SimpleNamespace(roles=["member"], secret=self.secret),
        )
        worker = types.SimpleNamespace(
            clouds=self, conf=conf, store=types.SimpleNamespace(steps=lambda _id: list(steps)), name="w"
        )
        made = StepContext(worker, deletion(**values), Step("a", "d", StepKind.ACCESS), str, lambda _made: None)
        noted = record or (lambda type_, data: self.did.append((type_, data)))
        made.drain_context = lambda: drain.DrainContext(
            "d", "p", "me", self, self, made.guard, noted, tuple, self.janitor_id
        )
        return made

    def access(self, *steps, **options):
        """Run the access step."""
        return RUNNERS[StepKind.ACCESS](self.context(*steps, **options)).run()

    def session(self, type_=MODULE, guard=read_only, gone=False, **options):
        """Return the session that a sweep of a type gets."""
        return self.context(MODULES, **options).session(type_, guard, gone)


# --------------------------------------------------------------------------------------------------- who gives the role
def test_the_janitor_gets_its_role_where_a_type_is_listed_with_its_token():
    cloud = Cloud()
    result = cloud.access(sweep_step("network.port"), MODULES)
    assert (result.outcome, cloud.did) == (
        Outcome.CLEAR,
        MADE,
    ), "recorded first"
    assert "the janitor has its role on the project" in result.message
    cloud.did.clear()
    assert cloud.access(MODULES).outcome is Outcome.CLEAR
    assert cloud.did == [], "it has the role already"


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (sweep_step("key-manager.secret", token=Token.PROJECT),),
        (dataclasses.replace(MODULES, waived="w"),),
    ],
)
def test_where_no_list_needs_it_the_janitor_gets_no_role(steps):
    cloud = Cloud()
    assert cloud.access(*steps).outcome is Outcome.CLEAR
    assert cloud.did == []


@pytest.mark.parametrize(
    ("cloud", "said"),
    [
        (Cloud(secret=""), ""),
        (Cloud(refused=NoJanitor("Keystone makes no user")), "makes no user"),
        (Cloud(("janitor", "admin")), "must not have"),
        (Cloud(ROLE, more=["operator"]), "has more roles"),
    ],
)
def test_without_a_usable_janitor_the_access_step_succeeds_and_says_why(cloud, said):
    result = cloud.access(MODULES)
    assert (result.outcome, [each for each in cloud.did if each != MADE[0]]) == (Outcome.CLEAR, [])
    assert said in result.message


def test_without_leave_to_record_the_role_it_is_not_given():
    def refuse(*_):
        raise Stopped("cancelled")

    cloud = Cloud()
    with pytest.raises(Stopped):
        cloud.access(MODULES, record=refuse)
    assert cloud.did == []
