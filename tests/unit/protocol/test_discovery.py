"""Which services are asked over the protocol, what is believed, and what stays known when they fall silent."""

import dataclasses
import datetime
import threading

import pytest
from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1 import loading
from oslo_config import cfg

from cleanup_orchestrator.cloud import catalog, protocol_options
from cleanup_orchestrator.cloud.catalog import AnsweredBy, Entry, ServiceCatalog
from cleanup_orchestrator.errors import BadAnswer, CleanupError, NoServiceToken, Stopped
from cleanup_orchestrator.plugins.base import ResourceType, Service
from cleanup_orchestrator.plugins.registry import Registry, combine
from cleanup_orchestrator.protocol import discovery
from cleanup_orchestrator.protocol.discovery import FRESH, Discovery
from cleanup_orchestrator.protocol.documents import Capabilities, ProblemType
from cleanup_orchestrator.protocol.documents import ResourceType as Declared
from cleanup_orchestrator.protocol.plugin import service
from cleanup_orchestrator.store import Spoken
from tests.support.timing import wait
from tests.unit.protocol.vendor import problem, response
from tests.unit.world import T0


def plugin(service_type, *types):
    return Service(service_type, types)


def named(name, **values):
    return ResourceType(name, list=lambda *_: (), delete=None, **values)


PLUGINS = Registry(
    [
        plugin("network", named("port")),
        plugin("workflow", named("workflow")),
        plugin("identity", named("trust", after=("*",))),
    ]
)
VENDOR = Entry("R1", "vendor", "Vendor", url="http://vendor/v1")
URL = "http://vendor/v1/project-resources/v1"


def document(*types, service_type="vendor", **values):
    return {**Capabilities(service_type, tuple(types or (Declared("widget"),))).to_dict(), **values}


class Records:
    """The store, with a clock that the test moves."""

    def __init__(self):
        self.rows, self.now, self.reads = {}, T0, 0

    def protocol_services(self, region=None):
        self.reads += 1
        found = [row for _, row in sorted(self.rows.items())]
        return tuple(row for row in found if region in (None, row.region)), self.now

    def save_protocol_service(self, answer):
        place = (answer.region, answer.service_type)
        before = self.rows.get(place)
        if answer.document is None and before is not None:
            kept = {name: getattr(before, name) for name in ("document", "digest", "read_at")}
        else:
            kept = {"read_at": self.now if answer.document is not None else None}
        self.rows[place] = dataclasses.replace(answer, asked_at=self.now, **kept)


class World:
    """Services at URLs, and a discovery that asks them."""

    def __init__(self, **options):
        self.answers, self.asked, self.store = {URL: response(200, document())}, [], Records()
        self.refusal = None
        self.conf = cfg.ConfigOpts()
        for module in (catalog, protocol_options):
            for group, opts in module.OPTS.items():
                self.conf.register_opts(opts, group=group)
        self.conf.register_opts(loading.get_auth_common_conf_options(), group="protocol")
        self.conf([])
        for name, value in {"auth_type": "password", **options}.items():
            self.conf.set_override(name, value, group="protocol")
        self.discovery = Discovery(self.conf, self.store, self, PLUGINS)

    # -- the clouds
    def service_session(self, _guard):
        if self.refusal is not None:
            raise self.refusal
        return self

    def request(self, url, method, **options):
        assert (method, options["redirect"], options["once"]) == ("GET", False, True)
        self.asked.append(url)
        answer = self.answers[url]
        if callable(answer):
            return answer()
        if isinstance(answer, Exception):
            raise answer
        return answer

    # -- for a test
    def status(self, entry=VENDOR):
        return self.discovery.ask([entry]).get((entry.region, entry.service_type))

    def later(self):
        self.store.now += FRESH + datetime.timedelta(seconds=1)

    def covered(self, entry=VENDOR):
        """Return how the service catalog says that an entry is covered."""
        names = {s.service_type: tuple(t.name for t in s.types) for s in PLUGINS.services.values()}
        status = self.discovery.ask([entry]).get((entry.region, entry.service_type))
        return ServiceCatalog(self.conf, names).status(entry, (), status)


def says(world, answer, entry=VENDOR, url=URL):
    world.answers[url] = answer
    return world.status(entry)


# ------------------------------------------------------------------------------------------------------- asking
def test_a_service_is_asked_below_its_endpoint_and_then_used():
    world = World()
    status = world.status()
    assert world.asked == [URL]
    assert (status.usable, status.spoke, status.types, status.url, status.read_at) == (True, True, ("widget",), URL, T0)
    covered = world.covered()
    assert (covered.answered_by, covered.types, covered.message) == (AnsweredBy.PROTOCOL, ("widget",), "")


def test_an_answer_is_used_for_half_a_minute_by_all_processes():
    world = World()
    world.status()
    other = Discovery(world.conf, world.store, world, PLUGINS)
    assert other.ask([VENDOR])[("R1", "vendor")].usable
    assert len(world.asked) == 1
    world.later()
    world.status()
    assert len(world.asked) == 2


def test_an_answer_of_a_time_to_come_is_not_used():
    """The clock of the database was put back."""
    world = World()
    world.status()
    world.store.now -= datetime.timedelta(hours=1)
    world.status()
    assert len(world.asked) == 2


def test_a_service_that_moved_is_asked_at_once():
    world = World()
    world.status()
    world.answers["http://new/project-resources/v1"] = response(404)
    moved = Entry("R1", "vendor", "Vendor", url="http://new")
    assert not world.status(moved).usable


@pytest.mark.parametrize(
    ("entry", "options", "asked"),
    [
        (VENDOR, {}, [URL]),
        (VENDOR, {"endpoints": ["vendor=http://named/x/"]}, ["http://named/x"]),
        (VENDOR, {"endpoints": ["vendor=http://named/x", "vendor@R1=http://here/x"]}, ["http://here/x"]),
        (VENDOR, {"endpoints": ["vendor@R2=http://there/x"]}, [URL]),
        (Entry("R1", "network", "n", url="http://vendor/v1"), {}, []),
        (Entry("R1", "network", "n", url="http://vendor/v1"), {"prefer": ["network"]}, [URL]),
        (Entry("R1", "alarm", "a", url="http://vendor/v1"), {"endpoints": ["alarming@R1=http://here/x"]}, ["http://here/x"]),
        (Entry("", "identity", "k", url="http://vendor/v1"), {}, []),
        (Entry("R1", "vendor.two", "Two", "vendor", "http://vendor/v1"), {}, []),
        (Entry("R1", "vendor.two", "Two", "vendor", "http://vendor/v1"), {"endpoints": ["vendor.two=http://2"]}, ["http://2"]),
        (Entry("R1", "vendor", "V", url="http://vendor/v1/%(project_id)s"), {}, []),
        (Entry("R1", "vendor", "V", url="http://vendor/v1/$(tenant_id)s"), {}, []),
        (Entry("R1", "vendor", "V"), {}, []),
        (VENDOR, {"auth_type": None}, []),
    ],
)  # fmt: skip
def test_who_is_asked_and_where(entry, options, asked):
    world = World(**options)
    world.answers = dict.fromkeys([URL, "http://named/x", "http://here/x", "http://2"], response(404))
    world.status(entry)
    assert world.asked == asked


def test_a_second_service_answers_for_its_type():
    world = World(endpoints=["vendor.two=http://2"])
    world.answers["http://2"] = response(200, document())
    entry = Entry("R1", "vendor.two", "Two", "vendor", "http://vendor/v1")
    assert world.covered(entry).answered_by is AnsweredBy.PROTOCOL
    registry = world.discovery.registry("R1", "vendor.two")
    assert registry.find("vendor.two", "widget").name == "widget"


def test_services_are_asked_at_once():
    world, gate = World(), threading.Barrier(3, timeout=10)

    def answer():
        gate.wait()
        return response(200, document())

    entries = [Entry(f"R{n}", "vendor", "V", url=f"http://{n}") for n in range(3)]
    world.answers = {f"{entry.url}/project-resources/v1": answer for entry in entries}
    assert [status.usable for status in world.discovery.ask(entries).values()] == [True] * 3


def test_a_service_that_sends_its_answer_without_end_is_silent():
    world, over = World(timeout=0.1), threading.Event()

    def answer():
        over.wait(30)
        return response(200, document())

    try:
        status = says(world, answer)
    finally:
        over.set()
    assert (status.usable, "in time" in status.message) == (False, True)


def test_no_second_request_is_sent_to_a_service_that_still_answers_the_first():
    """Otherwise a service that never ends its answer would hold one more thread at each survey."""
    world, over = World(timeout=0.1), threading.Event()

    def answer():
        over.wait(30)
        return response(200, document())

    try:
        for _ in range(3):
            assert not says(world, answer).usable
            world.later()
        assert len(world.asked) == 1
    finally:
        over.set()


def test_two_surveys_at_once_ask_a_service_once_and_both_have_its_answer(monkeypatch):
    world, over, found, waiting = World(), threading.Event(), [], []
    really_wait = discovery.futures.wait

    def noted_wait(answers, timeout):
        waiting.append(answers)
        return really_wait(answers, timeout)

    monkeypatch.setattr(discovery.futures, "wait", noted_wait)

    def answer():
        over.wait(30)
        return response(200, document())

    world.answers[URL] = answer
    threads = [threading.Thread(target=lambda: found.append(world.status().usable)) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait("both wait for the answer", lambda: len(waiting) == 2)
    over.set()
    for thread in threads:
        thread.join(30)
    assert (found, len(world.asked)) == ([True, True], 1)


def test_a_survey_waits_for_silent_services_as_long_as_the_option_says_however_many_they_are(monkeypatch):
    world, waited = World(timeout=7.0), []

    def none_ends(answers, timeout):
        waited.append(timeout)
        return set(), set(answers)

    monkeypatch.setattr(discovery.futures, "wait", none_ends)
    entries = [Entry(f"R{n}", "vendor", "V", url="http://vendor/v1") for n in range(40)]
    assert not any(status.usable for status in world.discovery.ask(entries).values())
    assert 7.0 <= sum(waited) <= 8.0


# ------------------------------------------------------------------------------------------------- what is believed
#: What a service answers that never answered before, what is on record then, and a part of the message.
FIRST = {
    "404": (response(404, "<html/>", "text/html"), Spoken.ABSENT, "does not speak"),
    "410": (response(410), Spoken.ABSENT, "does not speak"),
    "an error": (response(500), Spoken.SILENT, "does not answer"),
    "unavailable": (problem(ProblemType.UNAVAILABLE), Spoken.SILENT, "because"),
    "forbidden": (response(403, {"message": "no"}), Spoken.SILENT, "403"),
    "bad request": (response(400), Spoken.SILENT, "400"),
    "no connection": (ka_exceptions.ConnectFailure("no route"), Spoken.SILENT, "no route"),
    "a redirect": (response(302, Location="http://thief/"), Spoken.INVALID, "redirect"),
    "an address outside of the catalog": (BadAnswer("no token is sent there"), Spoken.INVALID, "no token"),
    "HTML": (response(200, "<html/>", "text/html"), Spoken.INVALID, "JSON"),
    "nothing": (response(200), Spoken.INVALID, "JSON"),
    "a version document": (response(200, {"versions": []}), Spoken.INVALID, "wrong document"),
    "another protocol": (response(200, document(protocol="other")), Spoken.INVALID, "protocol"),
    "another version": (response(200, document(version="2.0")), Spoken.INVALID, "version"),
    "another service": (response(200, document(service_type="network")), Spoken.INVALID, "document of network"),
    "no types": (response(200, {**document(), "types": []}), Spoken.INVALID, "owns_nothing"),
    "a type twice": (response(200, document(Declared("widget"), Declared("widget"))), Spoken.INVALID, "two types"),
    "an unknown type": (response(200, document(Declared("widget", after=("gadget",)))), Spoken.INVALID, "gadget"),
    "an unknown parent": (response(200, document(Declared("a", deleted_with=("b",)))), Spoken.INVALID, "deleted_with"),
    "itself": (response(200, document(Declared("widget", after=("widget",)))), Spoken.INVALID, "circle"),
    "no member may call it": (
        response(200, document(Declared("widget", acts_on="a hook", delete_all=True))), Spoken.INVALID, "acts_on"
    ),
    "everything in after": (response(200, document(Declared("widget", after=("*",)))), Spoken.INVALID, "after"),
    "a wrong name": (response(200, document(Declared("Wid-get"))), Spoken.INVALID, "name"),
    "a name with a newline": (response(200, document(Declared("widget\n"))), Spoken.INVALID, "name"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST)
def test_without_a_valid_document_a_service_is_unsupported(name):
    answer, spoken, said = FIRST[name]
    world = World()
    world.answers[URL] = answer
    covered = world.covered()
    assert (covered.answered_by, covered.types) == (AnsweredBy.UNSUPPORTED, ())
    assert covered.message.startswith("no plugin answers for vendor: what it holds is unknown; ")
    assert said in covered.message
    assert world.store.rows["R1", "vendor"].spoken is spoken
    assert "vendor" not in world.discovery.registry("R1", "vendor").services


@pytest.mark.parametrize("name", FIRST)
def test_a_service_that_answered_before_keeps_its_document(name):
    """One that is silent keeps its steps, which fail; one that says something else is unsupported and blocks."""
    answer, spoken, said = FIRST[name]
    world = World()
    world.status()
    world.later()
    world.answers[URL] = answer
    covered = world.covered()
    silent = spoken is Spoken.SILENT
    assert covered.answered_by is (AnsweredBy.PROTOCOL if silent else AnsweredBy.UNSUPPORTED)
    assert covered.types == ("widget",)
    assert (said if spoken is not Spoken.ABSENT else "before") in covered.message
    assert world.discovery.registry("R1", "vendor").find("vendor", "widget")


def test_a_service_that_answers_again_is_used_again():
    world = World()
    for answer, by in (
        (response(200, document()), AnsweredBy.PROTOCOL),
        (response(404), AnsweredBy.UNSUPPORTED),
        (response(200, document(Declared("gadget"))), AnsweredBy.PROTOCOL),
    ):
        world.answers[URL] = answer
        assert world.covered().answered_by is by
        world.later()
    assert [t.name for t in world.discovery.registry("R1", "vendor").services["vendor"].types] == ["gadget"]


@pytest.mark.parametrize("contrary", [response(404), response(200, document(Declared("a", deleted_with=("b",))))])
def test_silence_does_not_make_a_document_valid_again_that_its_service_took_back(contrary):
    """The document that it has now may name types that the one on record does not."""
    world = World()
    for answer, by in (
        (response(200, document()), AnsweredBy.PROTOCOL),
        (contrary, AnsweredBy.UNSUPPORTED),
        (response(500), AnsweredBy.UNSUPPORTED),
        (response(500), AnsweredBy.UNSUPPORTED),
        (response(200, document()), AnsweredBy.PROTOCOL),
        (response(500), AnsweredBy.PROTOCOL),
    ):
        world.answers[URL] = answer
        assert world.covered().answered_by is by
        world.later()


def test_a_later_minor_version_and_unknown_fields_are_accepted():
    world = World()
    world.answers[URL] = response(200, document(version="1.7", colour="blue"))
    assert world.status().usable


#: A document whose types do not fit to the installed plugins, and what the message names.
UNFIT = {
    "an unknown type of a plugin": (Declared("widget", after=("network.prot",)), "network.prot"),
    "an unknown service": (Declared("widget", after=("acme.thing",)), "acme.thing"),
    "a cycle with a plugin": (Declared("widget", after=("identity.trust",)), "cycle"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_types_that_do_not_fit_make_the_service_unsupported_and_break_no_plugin(name):
    declared, said = UNFIT[name]
    world = World()
    world.answers[URL] = response(200, document(declared))
    covered = world.covered()
    assert covered.answered_by is AnsweredBy.UNSUPPORTED
    assert said in covered.message
    assert world.discovery.registry("R1", "vendor").services == PLUGINS.services


def test_one_service_that_does_not_fit_does_not_affect_another():
    def made(name, **values):
        return service(Capabilities(name, (Declared("widget", **values),)), f"http://{name}")

    good = made("good")
    for bad in (made("bad", after=("good.gadget",)), made("bad", after=("widget", "good.widget"))):
        registry, refused = combine(PLUGINS, [bad, good])
        assert (set(refused), set(registry.services) - set(PLUGINS.services)) == ({"bad"}, {"good"})
    one, two = made("one", after=("two.widget",)), made("two")
    assert combine(PLUGINS, [one, two])[1] == {}, "whatever their order"
    registry, refused = combine(PLUGINS, [made("one", after=("two.widget",)), made("two", after=("one.widget",)), good])
    assert (set(refused), "good" in registry.services) == ({"one", "two"}, True), "a cycle is of all that are in it"
    first, second = made("first", after=("second.widget",)), made("second", after=("third.widget",))
    assert set(combine(PLUGINS, [first, second])[1]) == {"first", "second"}, "what waits for what is refused"


def test_a_plugin_that_relies_on_a_type_keeps_it():
    relying = Registry([*PLUGINS.services.values(), plugin("dns", named("zone", after=("workflow.workflow",)))])
    lacking = service(Capabilities("workflow", (Declared("other"),)), "http://w")
    registry, refused = combine(relying, [lacking])
    assert (set(refused), registry.services) == ({"workflow"}, relying.services)


# --------------------------------------------------------------------------------------------------------- prefer
WORKFLOW = Entry("R1", "workflow", "Mistral", url="http://vendor/v1")


def test_a_preferred_service_replaces_its_plugin_in_its_region():
    world = World(prefer=["workflow"])
    world.answers[URL] = response(200, document(service_type="workflow"))
    assert (world.covered(WORKFLOW).answered_by, world.covered(WORKFLOW).types) == (AnsweredBy.PROTOCOL, ("widget",))
    assert [t.name for t in world.discovery.registry("R1", "workflow").services["workflow"].types] == ["widget"]
    assert [t.name for t in world.discovery.registry("R2", "workflow").services["workflow"].types] == ["workflow"]


def test_a_preferred_service_that_never_answered_stays_with_its_plugin():
    world = World(prefer=["workflow"])
    world.answers[URL] = response(404)
    covered = world.covered(WORKFLOW)
    assert (covered.answered_by, covered.types) == (AnsweredBy.PLUGIN, ("workflow",))
    assert "[protocol] prefer" in covered.message and "does not speak" in covered.message


def test_a_preferred_service_that_answered_before_does_not_fall_back_to_its_plugin():
    """The protocol may have types that the plugin does not list."""
    world = World(prefer=["workflow"])
    world.answers[URL] = response(200, document(service_type="workflow"))
    world.status(WORKFLOW)
    world.later()
    world.answers[URL] = response(404)
    assert world.covered(WORKFLOW).answered_by is AnsweredBy.UNSUPPORTED


def test_a_service_off_the_list_is_its_plugins_again():
    world = World(prefer=["workflow"])
    world.answers[URL] = response(200, document(service_type="workflow"))
    world.status(WORKFLOW)
    world.conf.set_override("prefer", [], group="protocol")
    assert world.covered(WORKFLOW).answered_by is AnsweredBy.PLUGIN
    assert world.discovery.registry("R1", "workflow") is PLUGINS


def test_no_database_is_asked_for_a_service_with_a_plugin():
    world = World()
    assert world.discovery.registry("R1", "network") is PLUGINS
    assert world.discovery.ask([Entry("R1", "network", "n", url="http://n")]) == {}
    assert world.store.reads == 0


def test_a_registry_is_made_once_for_the_same_documents():
    world = World()
    world.status()
    first = world.discovery.registry("R1", "vendor")
    assert world.discovery.registry("R1", "vendor") is first
    world.later()
    says(world, response(200, document(Declared("gadget"))))
    assert world.discovery.registry("R1", "vendor") is not first


# -------------------------------------------------------------------------------------------------- without a user
def test_without_a_user_the_protocol_is_off_and_the_message_says_so():
    covered = World(auth_type=None).covered()
    assert covered.answered_by is AnsweredBy.UNSUPPORTED
    assert covered.message.startswith("no plugin answers for vendor")
    assert "[protocol] auth_type" in covered.message


def test_without_a_user_only_a_process_that_shows_services_uses_the_record():
    world = World()
    world.status()
    world.conf.set_override("auth_type", None, group="protocol")
    assert not world.discovery.ask([VENDOR])["R1", "vendor"].usable
    assert world.discovery.showing_records().ask([VENDOR])["R1", "vendor"].usable
    assert world.discovery.ask([VENDOR])["R1", "vendor"].spoke, "its steps stay"


@pytest.mark.parametrize(
    "refusal",
    [
        NoServiceToken("its token has the role admin"),
        ka_exceptions.ConnectFailure("no route to the role admin"),
        ka_exceptions.InternalServerError("the role admin"),
        CleanupError("[protocol] auth_type = none: the role admin"),
    ],
)
def test_a_user_that_cannot_be_used_asks_no_service_and_stops_no_survey(refusal):
    world = World()
    world.refusal = refusal
    status = world.status()
    assert (status.usable, world.asked, world.store.rows) == (False, [], {})
    assert "the role admin" in status.message


def test_a_step_that_was_given_up_records_nothing():
    world = World()
    world.refusal = Stopped("given up")
    with pytest.raises(Stopped):
        world.status()


def test_the_trouble_of_a_user_is_told_of_the_services_that_had_to_be_asked():
    world = World()
    world.status()
    world.refusal = NoServiceToken("no token")
    other = Entry("R2", "vendor", "V", url="http://vendor/v1")
    found = world.discovery.ask([VENDOR, other])
    assert (found["R1", "vendor"].message, "no token" in found["R2", "vendor"].message) == ("", True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endpoints": ["vendor"]}, "no URL"),
        ({"endpoints": ["=http://x"]}, "an entry is"),
        ({"endpoints": ["vendor@=http://x"]}, "an entry is"),
        ({"endpoints": ["vendor=ftp://x"]}, "no URL"),
        ({"endpoints": ["vendor=http://x?a=b"]}, "no URL"),
        ({"endpoints": ["vendor=http://[x"]}, "no URL"),
        ({"endpoints": ["vendor=http://x:99999"]}, "no URL"),
        ({"endpoints": ["vendor=http://user:secret@x"]}, "no URL"),
        ({"endpoints": ["vendor=http://x", "vendor=http://y"]}, "two URLs"),
        ({"endpoints": ["alarm=http://x", "alarming=http://y"]}, "two URLs"),
        ({"prefer": ["identity"]}, "identity"),
    ],
)
def test_an_option_that_is_not_valid_is_named(options, message):
    with pytest.raises(protocol_options.BadProtocolOption, match=message) as raised:
        World(**options).status()
    assert "secret" not in str(raised.value)
