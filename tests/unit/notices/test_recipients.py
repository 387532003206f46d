"""Who gets a mail: members, properties, addresses, and those who got an earlier one."""

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.notices import recipients
from tests.support.cases import each_case

P, D, U1, U2, U3 = "a" * 32, "b" * 32, "1" * 32, "2" * 32, "3" * 32
PAYLOAD = {"deletion_id": "d", "project_id": P, "domain_id": D, "member_ids": []}
ROWS = [{"user": {"id": U1}}, {"user": {"id": U2}}, {"user": {"id": U1}}, {"group": {"id": "g"}}]
KNOWN = {
    f"/role_assignments?effective&scope.project.id={P}": {"role_assignments": ROWS},
    f"/users/{U1}": {"user": {"email": "ann@example.com"}},
    f"/users/{U2}": {"user": {"email": "bob@example.com", "enabled": False}},
    f"/users/{U3}": {"user": {"email": "cas@example.com"}},
    f"/projects/{P}": {"project": {"contact": "dan@example.com, eve@example.com", "flag": True}},
    f"/domains/{D}": {"domain": {"owner": "fay@example.com"}},
}


class Keystone:
    def __init__(self, known):
        self.known, self.asked = known, []

    def get(self, path):
        self.asked.append(path)
        if path not in self.known:
            raise ka_exceptions.NotFound("gone")
        return types.SimpleNamespace(json=lambda: self.known[path], status_code=200, headers={}, text="")


class Journal:
    def __init__(self, *events):
        self.rows = [types.SimpleNamespace(event=each) for each in events]

    def events(self, _id, _limit, type):
        return [row for row in self.rows if row.event.type == type]


def found(*to, known=KNOWN, journal=None, **payload):
    journal = journal or Journal()
    return recipients.addresses({**PAYLOAD, **payload}, to, lambda: Keystone(known), journal)


@each_case(
    "to,addresses",
    [
        (["members"], ["ann@example.com"]),
        (["project:contact"], ["dan@example.com", "eve@example.com"]),
        (["domain:owner"], ["fay@example.com"]),
        (["project:none", "project:flag", "domain:none"], []),
        (["ops@example.com"], ["ops@example.com"]),
        (["members", "ANN@example.com"], ["ANN@example.com"]),
    ],
)
def test_the_option_names_them(to, addresses):
    assert found(*to) == addresses


def test_a_project_that_is_gone_has_the_members_that_it_had_and_who_got_a_mail_before():
    known = {path: value for path, value in KNOWN.items() if P not in path}
    sent = Event("notice.sent", "", data={"by": "mail", "to": ["dan@example.com"]})
    hook = Event("notice.sent", "", data={"by": "webhook", "to": ["http://x"]})
    to = found("members", "project:contact", known=known, journal=Journal(sent, hook), member_ids=[U3])
    assert to == ["cas@example.com", "dan@example.com"]


@each_case(
    "address",
    [
        "x",
        "a@b",
        "@example.com",
        "a@example.com\r\nBcc: e@example.com",
        "a b@example.com",
        "ä@example.com",
        "",
        "a@@b.c",
        "a@[10.0.0.1]",
        "a@127.0.0.1",
        "a@[1.2\\]",
        "a@=?utf-8?q?b.c=2Ce@example.com?=",
        "a@=?utf-8?q?=C3=A4.example.com?=",
        '"a b"@example.com',
        "a..b@example.com",
    ],
)
def test_what_is_no_address_gets_no_mail(address):
    """A manager of a domain writes the addresses of its users."""
    assert found(address) == []


@given(st.text(max_size=40))
def test_no_text_becomes_more_than_an_address(text):
    for address in found(text):
        assert address.isascii() and address.isprintable() and address.count("@") == 1 and " " not in address


def test_very_many_members_make_no_endless_mail():
    rows = {f"/role_assignments?effective&scope.project.id={P}": {"role_assignments": []}}
    users = [f"{n:032x}" for n in range(500)]
    keystone = Keystone(rows | {f"/users/{u}": {"user": {"email": f"u{u[-3:]}@example.com"}} for u in users})
    to = recipients.addresses({**PAYLOAD, "member_ids": users}, ["members"], lambda: keystone, Journal())
    assert len(to) == recipients.MOST and len(keystone.asked) == recipients.MOST + 1


def test_many_members_do_not_displace_the_address_of_the_operator():
    known = {**KNOWN, f"/users/{U1}": {"user": {"email": ",".join(f"u{n}@example.com" for n in range(60))}}}
    assert "ops@example.com" in found("members", "project:contact", "ops@example.com", known=known)


def test_another_error_of_keystone_is_no_missing_project():
    class Failing:
        def get(self, _path):
            raise ka_exceptions.InternalServerError("500")

    with pytest.raises(ka_exceptions.ClientException):
        recipients.addresses(PAYLOAD, ["members"], Failing, Journal())
