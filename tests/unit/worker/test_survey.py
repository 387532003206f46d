"""The survey and the coverage of the catalog, over a Keystone that answers from a table."""

import dataclasses
import datetime
import re
import types

import pytest
from oslo_config import cfg

from cleanup_orchestrator.cloud import catalog
from cleanup_orchestrator.cloud.projects import Protection
from cleanup_orchestrator.core.deletion import Mode, Origin, Status
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.journal import Change, ChangeType
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, Token
from cleanup_orchestrator.errors import BadAnswer, ScopeDisabled
from cleanup_orchestrator.plugins.base import CONTROLLERS, ResourceType, Service, refused_in_use
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.protocol.documents import Capabilities
from cleanup_orchestrator.protocol.documents import ResourceType as Declared
from cleanup_orchestrator.protocol.plugin import service as plugin_of
from cleanup_orchestrator.shapes import forms
from cleanup_orchestrator.worker.steps import RUNNERS, survey
from tests.unit.worker.test_guard import task
from tests.unit.world import T0, deletion

PORT = ResourceType("port", list=lambda *_: (), delete=None)
VOLUME = ResourceType("volume", list=lambda *_: (), delete=None, after=("compute.server",))
TRUST = ResourceType("trust", list=lambda *_: (), delete=None, after=("*",))
ZONE = ResourceType("zone", list=lambda *_: (), delete=None)
REGISTRY = Registry(
    [
        Service("network", (PORT,)),
        Service("block-storage", (VOLUME,)),
        Service("dns", (ZONE,), regional=False),
        Service("identity", (TRUST,), regional=False),
    ]
)


class Keystone:
    """The adapter's ``get``, with one project and the given endpoints: (service type, region)."""

    def __init__(self, *endpoints, project=None, subtree=None, **cut):
        self.project = {"id": "p", "name": "P", "domain_id": "d", "enabled": True, **(project or {})}
        self.subtree, self.cut = subtree, cut
        types = sorted({t for t, _ in endpoints})
        self.services = [{"id": t, "type": t, "name": t} for t in types]
        self.endpoints = [{"id": f"{t}{r}", "service_id": t, "region_id": r} for t, r in endpoints]

    def get(self, path):
        if path == "/services":
            body = {"services": self.services, "truncated": self.cut.get("services", False)}
        elif path == "/endpoints":
            body = {"endpoints": self.endpoints, "truncated": self.cut.get("endpoints", False)}
        elif path.endswith("?subtree_as_ids"):
            body = {"project": {**self.project, "subtree": self.subtree}}
        elif path.startswith("/role_assignments"):
            scope = {"project": {"id": "p"}}
            body = {"role_assignments": [{"user": {"id": "u2"}, "role": {"id": "r"}, "scope": scope}]}
        else:
            body = {"project": self.project}
        return type("Answer", (), {"json": lambda _: body})()


def surveyed(
    keystone, never=(), record=None, waivers=(), known=(), lacks=lambda *_: False, protocol=None, owns_nothing=None
):
    conf = cfg.ConfigOpts()
    for group, options in catalog.OPTS.items():
        conf.register_opts(options, group=group)
    conf([])
    if owns_nothing is not None:
        conf.set_override("owns_nothing", owns_nothing, group="catalog")
    names = {s.service_type: tuple(t.name for t in s.types) for s in REGISTRY.services.values()}
    covered = catalog.ServiceCatalog(conf, names, protocol)
    protection = Protection(tuple(never), lambda: "own")
    record = record or deletion(member_ids=("u1",))
    sources = survey.Sources(REGISTRY, covered, protection, lacks, protocol and protocol.registry)
    return survey.survey(record, keystone, sources, waivers, known)


def steps(found):
    return sorted((s.kind, s.region, s.name) for s in found.steps)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_type_waits_for_what_it_serves_only_in_a_deletion_that_keeps_the_project(mode):
    address = dataclasses.replace(PORT, name="address", serves=(("block-storage.volume", refused_in_use),))
    known = Registry([Service("network", (address,)), Service("block-storage", (VOLUME,))])
    entry = catalog.CatalogEntryStatus("R1", "network", "neutron", catalog.AnsweredBy.PLUGIN)
    base = Step("", "d", StepKind.SWEEP, "R1")
    [step] = survey._steps(known, base, entry, halting=False, gone=False, kept=mode is Mode.PURGE)
    expected = ("block-storage.volume",) if mode is Mode.PURGE else ()
    assert (step.after, step.needed_by) == (expected, expected)


def test_every_type_in_every_region_and_identity_once():
    found = surveyed(
        Keystone(("network", "R1"), ("network", "R2"), ("identity", "R1"), ("identity", "R2"), ("volumev3", "R2"))
    )
    assert steps(found) == [
        (StepKind.SWEEP, "", "identity.trust"),
        (StepKind.SWEEP, "R1", "network.port"),
        (StepKind.SWEEP, "R2", "block-storage.volume"),
        (StepKind.SWEEP, "R2", "network.port"),
    ]
    assert found.result.outcome is Outcome.CLEAR


def test_a_type_that_its_service_lacks_in_a_region_has_no_step_there_unless_it_had_one():
    keystone = Keystone(("network", "R1"), ("network", "R2"), ("block-storage", "R1"))
    asked = []

    def lacks(service, type_, region):
        asked.append((service.service_type, type_.name, region))
        return (service.service_type, region) == ("network", "R1")

    all_of_them = steps(surveyed(keystone))
    missing = next(step for step in surveyed(keystone).steps if (step.type, step.region) == ("port", "R1"))
    assert set(all_of_them) - set(steps(surveyed(keystone, lacks=lacks))) == {(StepKind.SWEEP, "R1", "network.port")}
    assert ("network", "port", "R2") in asked
    assert steps(surveyed(keystone, known=[missing], lacks=lacks)) == all_of_them


class Clouds:
    """Connections that count."""

    def __init__(self):
        self.made = []

    def connection(self, _session, region):
        self.made.append(region)
        return region


@pytest.mark.parametrize(
    ("replaced", "held", "reopened"),
    [
        (False, True, False),
        (True, True, True),
        (False, False, True),
        pytest.param(False, ScopeDisabled("domain D is disabled"), True, id="no token can show whether it holds"),
    ],
)
def test_a_lock_that_is_not_seen_to_hold_is_void(replaced, held, reopened):
    """Then the project is drained again. The drain names a project or a domain that is disabled."""

    def seen(_context):
        if isinstance(held, Exception):
            raise held
        return held

    driver = types.SimpleNamespace(replaced=lambda *_: replaced, held=seen)
    context = types.SimpleNamespace(
        worker=types.SimpleNamespace(driver=driver),
        deletion=deletion(drained_at=T0),
        step=Step("s", "d", StepKind.SURVEY),
        drain_context=lambda: None,
    )
    assert survey.Survey(context).reopened(None) is reopened


@pytest.mark.parametrize(
    ("said", "token", "lacked"),
    [
        (True, Token.ADMIN, False),
        (False, Token.ADMIN, True),
        (False, Token.MEMBER, True),
        (False, Token.PROJECT, False),
        (False, Token.SERVICE, False),
        (None, Token.ADMIN, False),
        (TimeoutError("no answer"), Token.ADMIN, False),
    ],
)
def test_a_service_lacks_a_type_only_if_it_says_so(said, token, lacked):
    def available(_connection, _project):
        if isinstance(said, Exception):
            raise said
        return said

    type_ = dataclasses.replace(PORT, available=available, token=token)
    clouds = Clouds()
    worker = types.SimpleNamespace(registry=types.SimpleNamespace(options=lambda *_: {}), conf=None)
    context = types.SimpleNamespace(
        worker=worker, deletion=deletion(), step=Step("s", "d", StepKind.SURVEY), clouds=clouds, admin=lambda: None
    )
    made = survey.Survey(context)
    network = Service("network", (type_,))
    assert [made._lacks(network, type_, "R1") for _ in range(2)] == [lacked, lacked]
    failed = said is None or isinstance(said, Exception)
    assert clouds.made == ([] if token in (Token.PROJECT, Token.SERVICE) else ["R1"] if failed else ["R1", "R1"]), (
        "asked once in vain"
    )
    assert not made._lacks(network, PORT, "R1"), "it says nothing about being there"


def test_two_names_of_one_service_are_one():
    found = surveyed(Keystone(("volumev2", "R1"), ("volumev3", "R1"), ("block-storage", "R1")))
    assert steps(found) == [(StepKind.SWEEP, "", "identity.trust"), (StepKind.SWEEP, "R1", "block-storage.volume")]


def test_identity_is_called_also_when_the_catalog_does_not_have_it():
    assert (StepKind.SWEEP, "", "identity.trust") in steps(surveyed(Keystone(("network", "R1"))))


def test_an_unsupported_service_is_one_step_in_each_region():
    found = surveyed(Keystone(("workflow", "R1"), ("workflow", "R2"), ("made-up", "R1"), ("placement", "R1")))
    assert [s for s in steps(found) if s[0] is StepKind.UNSUPPORTED] == [
        (StepKind.UNSUPPORTED, "R1", "made-up."),
        (StepKind.UNSUPPORTED, "R1", "workflow."),
        (StepKind.UNSUPPORTED, "R2", "workflow."),
    ]
    assert all(s.reason == "no_plugin" for s in found.steps if s.kind is StepKind.UNSUPPORTED)


def test_members_that_were_seen_are_never_forgotten():
    assert surveyed(Keystone(("network", "R1"))).member_ids == ("u1", "u2")


@pytest.mark.parametrize(
    ("keystone", "never", "reason"),
    [
        (Keystone(("network", "R1"), project={"is_domain": True}), (), "project_is_domain"),
        (Keystone(("network", "R1"), subtree={"c1": {"c2": None}}), (), "project_has_children"),
        (Keystone(("network", "R1")), ("p",), "project_protected"),
        (Keystone(("network", "R1"), project={"name": "Admin"}), ("admin",), "project_renamed"),
        (Keystone(("network", "R1"), project={"options": {"immutable": True}}), (), "project_immutable"),
    ],
)
def test_what_must_not_be_deleted_is_said_before_anything_is_touched(keystone, never, reason):
    found = surveyed(keystone, never)
    assert (found.result.outcome, found.result.reason, found.steps) == (Outcome.UNKNOWN, reason, ())


def test_a_name_that_was_the_project_s_before_is_protected_by_an_operator():
    found = surveyed(Keystone(("network", "R1"), project={"name": "Kept"}), ("kept",), deletion(project_name="Kept"))
    assert found.result.reason == "project_protected"


def test_all_children_are_named():
    message = surveyed(Keystone(("network", "R1"), subtree={"c1": {"c2": None}, "c3": None})).result.message
    assert all(child in message for child in ("c1", "c2", "c3"))


@pytest.mark.parametrize("cut", ["services", "endpoints"])
def test_a_catalog_that_was_cut_short_is_no_catalog(cut):
    with pytest.raises(BadAnswer):
        surveyed(Keystone(("network", "R1"), **{cut: True}))


def test_an_answer_about_another_project_is_not_taken():
    with pytest.raises(BadAnswer):
        surveyed(Keystone(("network", "R1"), project={"id": "other"}))


# ------------------------------------------------------------------------------------- two services of one type
def several(*rows, interface="internal"):
    """A Keystone with one endpoint for each (service id, type, name, interface, URL) in region R1."""
    keystone = Keystone()
    keystone.interface = interface
    keystone.services = list({r[0]: {"id": r[0], "type": r[1], "name": r[2]} for r in rows}.values())
    keystone.endpoints = [
        {"id": str(n), "service_id": r[0], "region_id": "R1", "interface": r[3], "url": r[4]}
        for n, r in enumerate(rows)
    ]
    return keystone


def uncovered(found):
    return [s.service for s in found.steps if s.kind is StepKind.UNSUPPORTED]


FIRST = ("s1", "network", "neutron", "internal", "http://neutron/")


def test_a_second_service_of_one_type_is_unsupported():
    found = surveyed(several(FIRST, ("s2", "network", "Other SDN", "internal", "http://other")))
    assert (StepKind.SWEEP, "R1", "network.port") in steps(found)
    [step] = [s for s in found.steps if s.kind is StepKind.UNSUPPORTED]
    assert (step.region, step.service, step.type, step.reason) == ("R1", "network.other-sdn", "", "no_plugin")
    assert "Other SDN" in step.message and "only one" in step.message


@pytest.mark.parametrize(
    "second",
    [
        ("s2", "network", "again", "internal", "http://neutron"),
        ("s1", "network", "neutron", "public", "http://public"),
        ("s1", "network", "neutron", "internal", "http://neutron"),
    ],
    ids=["the same URL", "another interface of the same service", "another endpoint with the same URL"],
)
def test_what_is_only_registered_twice_blocks_nothing(second):
    assert uncovered(surveyed(several(FIRST, second))) == []


def test_a_second_endpoint_of_a_service_is_unsupported():
    """An endpoint filter can give a project the second one alone, with all its resources there."""
    found = surveyed(several(FIRST, (*FIRST[:4], "http://second"), (*FIRST[:4], "http://third")))
    assert (StepKind.SWEEP, "R1", "network.port") in steps(found)
    first, second = (s for s in found.steps if s.kind is StepKind.UNSUPPORTED)
    assert (first.service, first.reason, second.service) == ("network.1", "no_plugin", "network.2")
    assert "neutron holds at http://second is unknown" in first.message
    keystone = several(FIRST, (*FIRST[:4], "http://before the move"))
    keystone.endpoints[1]["enabled"] = False
    assert uncovered(surveyed(keystone)) == []


def test_one_cinder_under_its_old_types_blocks_nothing():
    old = [(f"s{n}", f"volumev{n}", f"cinderv{n}", "internal", f"http://cinder/v{n}") for n in (2, 3)]
    assert uncovered(surveyed(several(*old))) == []


def test_the_supported_service_has_an_endpoint_of_the_configured_interface():
    public = ("s0", "network", "hidden", "public", "http://hidden")
    assert uncovered(surveyed(several(public, FIRST))) == ["network.hidden"]
    assert uncovered(surveyed(several(public, FIRST, interface="publicURL"))) == ["network.neutron"]
    keystone = several(("s0", "network", "off", "internal", "http://off"), FIRST)
    keystone.services[0]["enabled"] = False
    assert uncovered(surveyed(keystone)) == ["network.off"]


def test_services_with_one_name_differ_by_id_and_services_with_one_url_are_one():
    same = [
        (f"s{n}", "network", name, "internal", f"http://{n}") for n, name in ((2, "neutron"), (3, ""), (4, "x" * 255))
    ]
    again = ("s5", "network", "again", "internal", "http://2")
    found = surveyed(several(FIRST, *same, again))
    assert uncovered(found) == ["network.s2", "network.s3", "network.s4"]


def test_the_name_of_a_second_service_is_one_that_a_waiver_can_have():
    long = ("s2" * 16, "n" * 120, "n", "internal", "http://n"), ("s3" * 16, "n" * 120, "n", "internal", "http://m")
    odd = ("s4", "network", "Ünïcode: {id}@R1", "internal", "http://odd")
    names = uncovered(surveyed(several(FIRST, odd, *long)))
    assert len(names) == 3
    for name in names:
        assert re.search(forms.SERVICE_TYPE["pattern"], name) and len(name) <= forms.SERVICE_TYPE["maxLength"]
        assert catalog.by_any_name(name) == name


def test_a_second_service_of_a_type_that_owns_nothing_owns_nothing():
    two = [(f"s{n}", "placement", f"p{n}", "internal", f"http://{n}") for n in (1, 2)]
    assert uncovered(surveyed(several(*two))) == []


def test_a_second_service_of_a_type_with_a_plugin_is_unknown_also_if_the_type_is_said_to_own_nothing():
    second = ("s2", "network", "Other SDN", "internal", "http://other")
    assert uncovered(surveyed(several(FIRST, second), owns_nothing=["network"])) == ["network.other-sdn"]


def test_the_services_in_which_projects_own_nothing_are_known_by_every_name():
    """An operator registers Watcher as ``infra-optim`` and Ceilometer as ``metering`` as often as by the new names."""
    names = [*catalog.OWNS_NOTHING, "infra-optim", "metering", "telemetry", "ha"]
    several_ = [(f"s{n}", name, name, "internal", f"http://{n}") for n, name in enumerate(names)]
    assert uncovered(surveyed(several(*several_))) == []


def test_a_project_that_keystone_knows_is_no_orphan():
    found = surveyed(Keystone(("network", "R1")), record=deletion(origin=Origin.ADOPTED))
    assert (found.result.outcome, found.result.reason, found.steps) == (Outcome.UNKNOWN, "project_known", ())


def test_a_catalog_without_any_endpoint_is_no_catalog():
    """Every project would look empty."""
    with pytest.raises(BadAnswer, match="not a single endpoint"):
        surveyed(Keystone())


# ------------------------------------------------------------------------- services that answer over the protocol
VENDOR = Capabilities("vendor", (Declared("widget"), Declared("part", after=("widget", "network.port"))))
SPEAKS = catalog.ProtocolStatus(True, True, ("widget", "part"), "http://vendor")
SILENT = dataclasses.replace(SPEAKS, message="it does not answer")
SPOKE = dataclasses.replace(SPEAKS, usable=False, message="it answered before")
NEVER = catalog.ProtocolStatus(message="it does not speak the protocol")
WITH_VENDOR = Registry([*REGISTRY.services.values(), plugin_of(VENDOR, "http://vendor")])


class Protocol:
    """What is known of services over the protocol, and the registry with their types."""

    def __init__(self, status, registry=WITH_VENDOR):
        self.status, self.made, self.asked = status, registry, []

    def ask(self, entries):
        self.asked += [entry.service_type for entry in entries]
        return {(e.region, e.service_type): self.status for e in entries if e.service_type == "vendor"}

    def registry(self, _region, service_type):
        return REGISTRY if service_type in REGISTRY.services else self.made


def of_vendor(protocol, known=(), waivers=(), **options):
    """Return the steps of the vendor's service that a survey finds."""
    keystone = Keystone(("network", "R1"), ("vendor", "R1"))
    return [s for s in surveyed(keystone, known=known, waivers=waivers, protocol=protocol, **options).steps
            if s.service == "vendor"]  # fmt: skip


def test_the_types_that_a_service_declares_have_steps_with_its_token():
    found = {step.type: step for step in of_vendor(Protocol(SPEAKS))}
    assert {name: (step.kind, step.region, step.token) for name, step in found.items()} == dict.fromkeys(
        ("widget", "part"), (StepKind.SWEEP, "R1", Token.SERVICE)
    )
    assert found["part"].after == tuple(sorted((*CONTROLLERS, "network.port", "vendor.widget")))


@pytest.mark.parametrize(
    ("status", "known", "types"),
    [
        (SPOKE, (), [""]),
        (SPOKE, ("widget",), ["", "widget"]),
        (SPOKE, ("widget", "part"), ["", "part", "widget"]),
        (SPEAKS, ("widget",), ["part", "widget"]),
        (NEVER, (), [""]),
    ],
)
def test_a_service_that_spoke_before_blocks_and_keeps_the_steps_that_are_known(status, known, types):
    before = [step for step in of_vendor(Protocol(SPEAKS)) if step.type in known]
    found = of_vendor(Protocol(status), known=before)
    assert sorted(step.type for step in found) == types
    unsupported = [step for step in found if step.kind is StepKind.UNSUPPORTED]
    assert [step.reason for step in unsupported] == (["no_plugin"] if "" in types else [])
    assert all(status.message in step.message for step in unsupported)


def test_a_service_that_does_not_say_which_types_it_has_now_is_not_proven_empty_by_the_lists_of_its_old_types():
    """It may have a new type, and answer for the old ones."""
    found = {step.type: step for step in of_vendor(Protocol(SILENT))}
    assert {name: step.kind for name, step in found.items()} == {
        "widget": StepKind.SWEEP, "part": StepKind.SWEEP, "": StepKind.UNSUPPORTED,
    }  # fmt: skip
    assert (found[""].reason, found[""].message) == ("unreachable", "it does not answer")


@pytest.mark.parametrize(
    ("outcome", "round_", "kept"),
    [
        (Outcome.LEFTOVERS, 2, True),
        (Outcome.UNKNOWN, 2, True),
        (Outcome.CLEAR, 2, False),  # it was listed, and was empty
        (Outcome.LEFTOVERS, 1, False),  # a retry has begun since
        (Outcome.NONE, 0, False),
    ],
)
def test_a_type_that_is_not_declared_any_more_stays_if_its_last_list_was_not_empty(outcome, round_, kept):
    """While a service is upgraded, processes of two releases may answer in turn."""
    [part] = (step for step in of_vendor(Protocol(SPEAKS)) if step.type == "part")
    old = dataclasses.replace(part, type="old", outcome=outcome, round=round_)
    record = deletion(since_round=2)
    found = {step.type: step for step in of_vendor(Protocol(SPEAKS), known=[old], record=record)}
    assert set(found) == {"widget", "part", *(["old"] if kept else [])}
    until = T0 + datetime.timedelta(days=1)
    waivers = [Waiver("w", "vendor", "burnt down", T0, until)]
    assert {s.type for s in of_vendor(Protocol(SPEAKS), [old], waivers, record=record)} == {"widget", "part"}


def test_a_service_that_declares_other_types_each_time_gets_no_steps_without_end():
    known, sizes = [], []
    for number in range(5):
        declared = Capabilities("vendor", tuple(Declared(f"t{number}_{i}") for i in range(60)))
        protocol = Protocol(SPEAKS, Registry([*REGISTRY.services.values(), plugin_of(declared, "http://vendor")]))
        found = of_vendor(protocol, known=known)
        assert {step.type for step in found} >= {type_.name for type_ in declared.types}
        known = [dataclasses.replace(step, outcome=Outcome.UNKNOWN, round=1) for step in found]
        sizes.append(len(known))
    assert sizes == [60, 120, 160, 160, 160]


def test_a_service_whose_types_cannot_be_found_is_unsupported_and_not_empty():
    """As when another process saves another answer at this moment."""
    [step] = of_vendor(Protocol(SPEAKS, registry=REGISTRY))
    assert (step.kind, step.reason) == (StepKind.UNSUPPORTED, "no_plugin")


def test_a_waived_service_is_not_asked_and_its_steps_are_waived():
    protocol = Protocol(SPEAKS)
    until = T0 + datetime.timedelta(days=1)
    found = of_vendor(protocol, waivers=[Waiver("w", "vendor", "burnt down", T0, until)])
    assert {(step.type, step.waived) for step in found} == {("widget", "w"), ("part", "w")}
    assert "vendor" not in protocol.asked


def test_a_service_that_owns_nothing_is_not_asked_and_has_no_steps():
    protocol = Protocol(SPEAKS)
    assert of_vendor(protocol, owns_nothing=["vendor"]) == []
    assert "vendor" not in protocol.asked


JANITOR = Change("c", "d", 1, ChangeType.JANITOR_MADE, {"name": "cleanup-janitor-d", "domain_id": "dom"})
LENT = Change("l", "d", 3, ChangeType.JANITOR_LENT, {})


@pytest.mark.parametrize(
    ("changes", "values", "void"),
    [
        ((JANITOR, LENT), {}, True),
        ((LENT,), {}, True),
        ((JANITOR,), {}, False),
        ((), {}, False),
        ((JANITOR, LENT), {"status": Status.DELETING}, False),
        ((JANITOR, LENT), {"drained_at": None}, False),
        ((JANITOR, LENT), {"closed_at": T0}, False),
    ],
    ids=["lent", "ended half", "for lists only", "none", "deletes go on", "not locked", "disabled: no token works"],
)
def test_a_verification_starts_anew_if_a_service_got_the_token(changes, values, void):
    record = deletion(**{"status": Status.VERIFYING, "drained_at": T0, **values})
    made = task(record, Step("s", "d", StepKind.SURVEY, round=1))
    made.worker.store.changed = changes
    assert RUNNERS[StepKind.SURVEY](made.step_context).janitor_lent() is void
