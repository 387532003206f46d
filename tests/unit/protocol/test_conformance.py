"""The conformance test of the protocol: an honest service keeps each rule, and each lie breaks the rule it is about."""

import functools
import pathlib
import re
from unittest import mock

import pytest
from keystoneauth1 import token_endpoint

from cleanup_orchestrator.cloud import session as cloud_session
from cleanup_orchestrator.cmd import protocol_check
from cleanup_orchestrator.protocol import conformance
from cleanup_orchestrator.protocol.conformance import NAMED, Callers, Options, Verdict, writes
from cleanup_orchestrator.protocol.documents import PATH
from tests.support import liars
from tests.support.liars import OTHER, PROJECT, Lie, filled
from tests.support.timing import SleepClock

pytestmark = pytest.mark.usefixtures("no_retries")

#: What each lie breaks, by the numbers of the rules.
BREAKS = {
    Lie.ANONYMOUS: {1, 2},
    Lie.ANY_TOKEN: {1},
    Lie.FORGED_ROLES: {1, 2},
    Lie.ANY_ROLE: {2},
    Lie.NO_TYPES: {3},
    Lie.OTHER_SERVICE: {3},
    Lie.UNKNOWN_AFTER: {3},
    Lie.ACTS_FOR_ALL: {3},
    Lie.NO_OWNER: {4},
    Lie.FOREIGN_ROWS: {4},
    Lie.RELABELS: {4, 8},  # its shows relabel, too
    Lie.EMPTY_WITHOUT_BACKEND: {5},
    Lie.FEWER_WITHOUT_BACKEND: {5},
    Lie.GONE_WITHOUT_BACKEND: {5},
    Lie.IGNORES_LIMIT: {6},
    Lie.IGNORES_MARKER: {6},
    Lie.ENDLESS: {6},
    Lie.SKIPS_A_ROW: {6},
    Lie.ANY_LIMIT: {6},
    Lie.ANY_MARKER: {6},
    Lie.NO_NEXT: {6, 7},  # the empty list of an unknown project lacks it, too
    Lie.HTML: {6, 7},
    Lie.UNKNOWN_PROJECT_404: {7},
    Lie.ALL_FOR_UNKNOWN_PROJECT: {7, 12},  # an id that is a pattern is an unknown project
    Lie.SHOW_DIFFERS: {8},
    Lie.SHOWS_FOREIGN: {8},
    Lie.GONE_THAT_IS_NOT: {9},
    Lie.NEVER_GONE: {9},
    Lie.ACCEPTED_AND_PRESENT: {9},
    Lie.DELETES_BY_ID: {9},
    Lie.DELETES_MORE: {9},
    Lie.TAKES_ANOTHERS: {9},
    Lie.TAKES_OTHERS_LATER: {9},
    Lie.TAKES_UNDECLARED: {9},
    Lie.UNKNOWN_IS_DELETED: {9},
    Lie.DELETES_ALL_OF_EVERYONE: {9},
    Lie.DELETES_ALL_UNDECLARED: {9},
    Lie.EMPTY_ID_DELETES_ALL: {9},
    Lie.LEAVES_PARTS: {9},
    Lie.PROXY_404: {10},
    Lie.PLAIN_ERRORS: {10},
    Lie.UNKNOWN_PATH_NOT_FOUND: {10},
    Lie.UNKNOWN_TYPE_EMPTY: {10},
    Lie.REDIRECT: {10},
    Lie.DRAINS_NOTHING: {11},
    Lie.DRAINS_ALL: {11},
    Lie.DRAIN_DELETES: {11},
    Lie.EMPTY_ID_IS_ALL: {12},
    Lie.PATTERN: {12},
    Lie.HIDES_FAILED: set(),  # no test can see it; the manual says so
}
#: The lies with which a delete hits what it must not: then nothing else is deleted.
HITS = {
    Lie.DELETES_BY_ID, Lie.DELETES_MORE, Lie.TAKES_ANOTHERS, Lie.TAKES_OTHERS_LATER, Lie.TAKES_UNDECLARED,
    Lie.DELETES_ALL_OF_EVERYONE, Lie.DELETES_ALL_UNDECLARED, Lie.EMPTY_ID_DELETES_ALL, Lie.DRAIN_DELETES,
}  # fmt: skip


@functools.cache
def after_a_check(lie=None):
    """Return a service that lies, after a check with --delete, and the findings."""
    service = filled(lie)
    return service, checked(service)


def checked(service, delete=True, member=True, backend=True, **options):
    """Check a service in this process; return the findings. Time passes only while the check waits for a delete."""
    clock = SleepClock()
    with mock.patch.object(writes, "time", clock), mock.patch.object(liars, "time", clock):
        return find(
            lambda token: liars.caller(service, token),
            liars.caller(service.without_backend(), liars.SERVICE_TOKEN) if backend else None,
            member,
            delete=delete,
            **options,
        )


def find(sender, without_backend, member=True, **options):
    callers = Callers(
        service=sender(liars.SERVICE_TOKEN),
        anonymous=sender(""),
        member=sender(liars.MEMBER_TOKEN) if member else None,
        without_backend=without_backend,
    )
    given = {"project": PROJECT, "other": OTHER, "service_type": liars.SERVICE_TYPE, "member_project": PROJECT}
    return list(conformance.run(callers, Options(**{**given, "wait": 0.5, **options})))


def test_an_honest_service_passes_every_check_over_http():
    service = filled()
    with liars.serve(service) as url, liars.serve(service.without_backend()) as broken:

        def sender(token, where=url):
            guard, auth = protocol_check.below([f"{url}/{PATH}"]), token_endpoint.Token(where, token)
            session = cloud_session.GuardedSession(guard, auth=auth, session=cloud_session.http_pool())
            return protocol_check.sender(session, f"{where}/{PATH}", authenticated=bool(token))

        found = find(sender, sender(liars.SERVICE_TOKEN, broken), delete=True)
    assert {finding.verdict for finding in found} == {Verdict.OK}


def failed(findings):
    return {NAMED[finding.rule].rule: finding.text for finding in findings if finding.verdict is Verdict.FAILED}


def names(findings, verdict):
    return [finding.rule for finding in findings if finding.verdict is verdict]


def test_every_lie_is_in_the_table():
    assert set(BREAKS) == set(Lie)


def test_every_rule_has_a_lie():
    assert set().union(*BREAKS.values()) == set(conformance.RULES)


def test_every_rule_has_a_check():
    assert {one.rule for one in conformance.CHECKS} == set(conformance.RULES)


def test_the_names_of_checks_are_unique():
    assert len({one.name for one in conformance.CHECKS}) == len(conformance.CHECKS)


def test_an_honest_service_passes_every_check():
    _service, findings = after_a_check()
    assert names(findings, Verdict.FAILED) == []
    assert names(findings, Verdict.NOT_CHECKED) == []
    assert all(finding.text for finding in findings)


def test_after_the_check_only_what_no_call_deletes_is_left():
    service, _findings = after_a_check()
    left = {name: service.ids(name, PROJECT) for name in liars.NAMES if service.ids(name, PROJECT)}
    assert list(left) == ["licence"]
    assert {name: len(service.ids(name, OTHER)) for name in liars.NAMES} == dict.fromkeys(liars.NAMES, 3)
    assert service.drained == set()


def test_a_service_that_any_role_may_use_fails_each_check_of_that():
    """With and without forged headers: a service may look at the headers only when they are there."""
    _service, findings = after_a_check(Lie.ANY_ROLE)
    assert {"member", "member-forged-headers", "write-member", "member-of-another"} <= set(
        names(findings, Verdict.FAILED)
    )


@pytest.mark.parametrize("lie", BREAKS)
def test_a_lie_breaks_its_rule_and_no_other(lie):
    _service, findings = after_a_check(lie)
    assert set(failed(findings)) == BREAKS[lie]


@pytest.mark.parametrize("lie", sorted(HITS))
def test_after_a_delete_that_hit_too_much_nothing_else_is_deleted(lie):
    service, findings = after_a_check(lie)
    assert "deletes stopped" in " ".join(finding.text for finding in findings if NAMED[finding.rule].rule == 9)
    assert len(service.ids("hook", PROJECT)) == (0 if lie is Lie.DRAIN_DELETES else 3)


#: The lies with which a delete hits the second project, and which resource of it.
HITS_OTHERS = {Lie.TAKES_ANOTHERS: "licence", Lie.TAKES_OTHERS_LATER: "bucket", Lie.DELETES_ALL_OF_EVERYONE: "bucket"}


@pytest.mark.parametrize("lie", HITS_OTHERS)
def test_a_delete_that_hits_the_second_project_names_what_it_hit(lie):
    _service, findings = after_a_check(lie)
    (one,) = (finding for finding in findings if finding.rule == "delete-neighbours")
    assert one.verdict is Verdict.FAILED
    assert f"{HITS_OTHERS[lie]} '{HITS_OTHERS[lie]}-22" in one.text
    assert f"of project {OTHER} is gone or under deletion" in one.text


@pytest.mark.parametrize("lie", [lie for lie, rules in BREAKS.items() if rules & {3, 4, 6, 7, 8, 12}])
def test_nothing_is_written_to_a_service_that_does_not_keep_projects_apart(lie):
    service, _findings = after_a_check(lie)
    assert {method for method, _path in service.requests} == {"GET"}


@pytest.mark.parametrize("lie", [None, Lie.ANONYMOUS, Lie.ANY_ROLE, Lie.DELETES_BY_ID, Lie.DRAINS_ALL])
def test_without_delete_nothing_is_written(lie):
    service = filled(lie)
    findings = checked(service, delete=False)
    assert {method for method, _path in service.requests} == {"GET"}
    assert set(failed(findings)) == BREAKS.get(lie, set()) - {9, 11}
    assert {one.rule for one in findings if NAMED[one.rule].writes} <= set(names(findings, Verdict.NOT_CHECKED))


#: What is not checked without an argument, and what the finding says to pass.
MISSING = {
    "project": ({"project": ""}, "--project ID", {"owner", "show", "small-pages"}),
    "other": ({"other": ""}, "--other-project ID", {"apart", "others-resource", "delete-neighbours"}),
    "member": ({"member": False}, "--as-member NAME", {"member", "member-forged-headers", "write-member"}),
    "backend": ({"backend": False}, "--without-backend URL", {"list-without-backend", "show-without-backend"}),
    "service-type": ({"service_type": ""}, "--service-type TYPE", {"service-type"}),
}


@pytest.mark.parametrize("case", MISSING)
def test_what_is_missing_is_said_and_fails_nothing(case):
    arguments, said, unchecked = MISSING[case]
    findings = checked(filled(), **arguments)
    found = {one.rule for one in findings if one.verdict is Verdict.NOT_CHECKED and said in one.text}
    assert unchecked <= found
    assert failed(findings) == {}


def test_empty_projects_prove_nothing():
    findings = checked(liars.Service())
    assert failed(findings) == {}
    unchecked = {"owner", "apart", "small-pages", "show", "other-path", "show-without-backend", "delete", "delete-all"}
    assert unchecked <= set(names(findings, Verdict.NOT_CHECKED))


def test_what_is_kept_or_protected_is_never_deleted():
    service = filled()
    service.add("bucket", PROJECT, "kept", keep="of the service")
    service.add("bucket", PROJECT, "locked", protected="shared with others")
    assert failed(checked(service)) == {}
    assert service.ids("bucket", PROJECT) == ["kept", "locked"]
    deleted = {path for method, path in service.requests if method == "DELETE"}
    assert not [path for path in deleted if path.endswith(("/kept", "/locked"))]


def test_a_finding_shows_the_request_and_what_the_lie_would_do():
    _service, findings = after_a_check(Lie.GONE_THAT_IS_NOT)
    one = next(finding for finding in findings if finding.rule == "delete")
    assert one.text.startswith(f"DELETE /projects/{PROJECT}/")
    assert "was answered with 204, and " in one.text
    assert "called empty while" in NAMED[one.rule].harm


def test_the_manual_names_each_check_for_its_rule():
    page = (pathlib.Path(__file__).parents[3] / "doc" / "source" / "protocol" / "checking.rst").read_text()
    parts = re.split(r"^Rule (\d+): .*$", page, flags=re.M)[1:]
    sections = {int(number): text for number, text in zip(parts[::2], parts[1::2], strict=True)}
    assert sorted(sections) == sorted(conformance.RULES)
    for number, text in sections.items():
        first = text.strip().partition("\n\n")[0]
        names = {one.name for one in conformance.CHECKS if one.rule == number}
        assert names <= set(re.findall("``([a-z-]+)``", first)), number
        assert "A service that lies: " in text
        assert "No test sees" in text
