"""A service that answers for itself: the whole orchestrator over an emulated cloud with such a service."""

from __future__ import annotations

import pytest

from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.journal import ChangeType
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.errors import BadAnswer, NoServiceToken
from cleanup_orchestrator.protocol.documents import User
from tests.emulated.cloud import OWN_PROJECT
from tests.emulated.cloud import USER as ORCHESTRATOR
from tests.emulated.http import Response
from tests.emulated.orchestrator import Orchestrator
from tests.support import auth_options
from tests.support.emulated_site import LEAN
from tests.support.timing import wait

CLOUD = {**LEAN, "projects": 1, "vendor": True}
SPEAKER = "speaker"  #: name and password of the protocol's user
LONG = 120
HTML = b"<html><body>Not Found</body></html>"


def user_of_the_protocol(emulated, *roles, name=SPEAKER):
    """Make the user, and return the options that name it."""
    known = {row.get("name"): row for row in emulated.state.table("", "identity.user").rows.values()}
    own = next(p.id for p in emulated.identity.projects.values() if p.name == OWN_PROJECT)
    if name not in known:
        user = emulated.add_user(name)
        for role in roles:
            emulated.grant(own, user, role)
    return {
        "auth_type": "password", "auth_url": emulated.auth_url, "username": name, "password": name,
        "project_name": OWN_PROJECT, "user_domain_id": "default", "project_domain_id": "default",
    }  # fmt: skip


@pytest.fixture(autouse=True)
def options_of_one_test():
    yield
    auth_options.forget("protocol")


@pytest.fixture
def vendor(emulated):
    return emulated.services["RegionOne", "vendor"]


@pytest.fixture
def running(emulated, tmp_path):
    with Orchestrator(emulated, tmp_path, protocol=user_of_the_protocol(emulated, "service")) as made:
        yield made


def fill(emulated, vendor):
    """Give the project and a bystander widgets; return the ids of the two."""
    project, other = emulated.projects[0], emulated.bystanders[0]
    for owner, name in ((project, "mine"), (other, "theirs")):
        for number in range(3):
            vendor.add("widget", f"{name}-{number}", owner)
        vendor.add("part", f"{name}-part", owner, part_of={"widget": f"{name}-0"})
        vendor.add("gadget", f"{name}/gadget", owner, description=f"uses {name}-1")
    return project, other


def steps(made, id_):
    return {s.name: s for s in made.store.steps(id_) if s.service == "vendor"}


def journal(made, id_, type_):
    return [row.event for row in made.store.events(id_, 10_000) if row.event.type == type_]


def test_a_cascade_ends_with_the_service_empty_and_the_neighbours_untouched(emulated, vendor, running):
    project, other = fill(emulated, vendor)
    theirs = vendor.owned(other)
    id_ = running.request(project)
    assert running.wait([id_], LONG) == {id_: Status.DELETED}, running.blockers(id_)
    assert (vendor.owned(project), vendor.owned(other)) == ([], theirs)
    assert {s.token for s in steps(running, id_).values()} == {Token.SERVICE}
    named = {each["id"] for event in journal(running, id_, "resource.deleted") for each in event.data["resources"]}
    assert {"mine-0", "mine-1", "mine-2", "mine/gadget"} <= named
    speaker = next(r.id for r in emulated.state.table("", "identity.user").rows.values() if r.get("name") == SPEAKER)
    assert vendor.users == {speaker}, "no admin's token is sent to the service"


@pytest.mark.slow
def test_the_service_refuses_new_resources_from_the_drain_until_the_removal(emulated, vendor, running):
    project, _ = fill(emulated, vendor)
    vendor.add("widget", "used", project, used_by=(User("vendor.gadget", "x", "another"),))
    id_ = running.request(project)
    wait("the widget of another project's gadget is left", lambda: vendor.owned(project) == ["used"], LONG)
    assert vendor.drained == {project}
    [change] = [c for c in running.store.changes(id_) if c.type == ChangeType.SERVICE_DRAINED]
    assert dict(change.data) == {"region": "RegionOne", "service": "vendor"}
    wait("it is told", lambda: steps(running, id_)["vendor.widget"].reason == "foreign", LONG)
    del vendor.rows["widget", "used"]
    assert running.wait([id_], LONG) == {id_: Status.DELETED}
    assert vendor.drained == set()
    assert vendor.drains[-1] == ("undrain", project)


@pytest.mark.slow
def test_a_service_that_does_not_drain_stops_no_deletion(emulated, vendor, running):
    project, _ = fill(emulated, vendor)
    vendor.lie = lambda _method, parts: Response(500, HTML) if parts[:1] == ["drains"] else None
    id_ = running.request(project)
    assert running.wait([id_], LONG) == {id_: Status.DELETED}, running.blockers(id_)
    assert journal(running, id_, "drain.service_failed")


@pytest.mark.parametrize(
    "lie",
    [
        lambda _method, parts: Response(404, HTML, type="text/html") if len(parts) == 3 else None,
        lambda _method, parts: Response(200) if len(parts) == 3 else None,
        lambda _method, parts: Response(503, HTML, type="text/html"),
        lambda _method, parts: Response(302, b"", {"Location": "http://127.0.0.1:9/"}) if len(parts) == 3 else None,
    ],
    ids=["the 404 of a proxy", "an empty 200", "down", "a redirect"],
)
@pytest.mark.slow
def test_what_does_not_answer_blocks_until_it_does(emulated, vendor, running, lie):
    project, _ = fill(emulated, vendor)
    first = running.request(project, dry_run=True)  # the capabilities are on record from here on
    running.wait([first], LONG)
    vendor.lie = lie
    id_ = running.request(project)
    wait("it blocks", lambda: "vendor.widget" in running.blockers(id_), LONG)
    assert emulated.exists(project)
    assert "mine-2" in vendor.owned(project)
    vendor.lie = lambda *_: None
    assert running.wait([id_], LONG) == {id_: Status.DELETED}, running.blockers(id_)
    assert vendor.owned(project) == []


@pytest.mark.slow
def test_a_service_that_stops_to_speak_keeps_its_steps_and_blocks(emulated, vendor, running):
    project, _ = fill(emulated, vendor)
    vendor.add("widget", "used", project, used_by=(User("vendor.gadget", "x", "another"),))
    id_ = running.request(project)
    wait("one is left", lambda: steps(running, id_)["vendor.widget"].outcome is Outcome.LEFTOVERS
         if "vendor.widget" in steps(running, id_) else False, LONG)  # fmt: skip
    vendor.lie = lambda *_: Response(404, HTML, type="text/html")
    wait("it is unsupported", lambda: "vendor." in steps(running, id_), LONG)
    found = steps(running, id_)
    assert {"vendor.widget", "vendor.gadget", "vendor.part"} <= set(found), "what they hold is not gone"
    assert "before" in found["vendor."].message
    assert emulated.exists(project)


@pytest.mark.slow
def test_without_a_user_the_service_is_unsupported(emulated, vendor, tmp_path):
    project, _ = fill(emulated, vendor)
    with Orchestrator(emulated, tmp_path) as made:
        id_ = made.request(project)
        wait("it is unsupported", lambda: "vendor." in steps(made, id_), LONG)
        assert "[protocol] auth_type" in steps(made, id_)["vendor."].message
    assert vendor.users == set()


# ---------------------------------------------------------------------------------------------------- the user
@pytest.mark.parametrize(
    ("roles", "name", "why"),
    [
        (("service", "admin"), SPEAKER, "the role admin"),
        ((), ORCHESTRATOR, "admin"),
        ((), SPEAKER, "cannot log in"),
    ],
)
def test_a_user_with_more_than_the_role_is_refused(emulated, vendor, tmp_path, roles, name, why):
    made = Orchestrator(emulated, tmp_path, protocol=user_of_the_protocol(emulated, *roles, name=name))
    with pytest.raises(NoServiceToken, match=why):
        made.parts.clouds.service_session(read_only)
    assert vendor.users == set()


def test_only_the_session_of_the_protocol_trusts_the_named_endpoints(emulated, tmp_path):
    options = {**user_of_the_protocol(emulated, "service"), "endpoints": "other=http://127.0.0.1:9/x"}
    clouds = Orchestrator(emulated, tmp_path, protocol=options).parts.clouds
    url = "http://127.0.0.1:9/x"
    with pytest.raises(BadAnswer, match="no endpoint of the catalog"):
        clouds.admin_session().get(url)
    with pytest.raises(Exception) as refused:
        clouds.service_session(read_only).request(url, "GET", once=True)
    assert not isinstance(refused.value, BadAnswer), "the token would be sent"


@pytest.mark.slow
def test_calls_count_for_the_service_in_its_region(emulated, vendor, running):
    project, _ = fill(emulated, vendor)
    id_ = running.request(project)
    assert running.wait([id_], LONG) == {id_: Status.DELETED}
    with running.store.database.read() as c:
        rows = c.exec_driver_sql("SELECT service, region, calls_at, deletes_at FROM rate_limits").all()
    found = {(row.service, row.region): row for row in rows}
    assert found["vendor", "RegionOne"].calls_at and found["vendor", "RegionOne"].deletes_at
