"""A use by another project has a remedy: the call that ends it, with nothing left to fill in."""

import re

import pytest

from cleanup_orchestrator.core.reasons import Reason, Subject, remedy
from cleanup_orchestrator.plugins import endings, registry
from cleanup_orchestrator.plugins.base import Resource

TYPES = [(service.service_type, type_) for service in registry.load().services.values() for type_ in service.types]


def is_whole(text):
    return bool(text) and not re.search(r"\{\w|\w\}", text) and not re.fullmatch(r".*read the log of [^;:,]*", text)


#: What a resource has as listed, as far as a call that ends its use needs it.
USED_ROW = {"volume_id": "v1", "bgpvpn_id": "b1", "resource_id": "z1"}
USES = [
    (f"{service}.{type_.name}", type_, use, by)
    for service, type_ in TYPES
    for use in type_.used_by or ()
    if not use.unseen
    for by in use.by
]


#: Users that their call names with what they are a part of.
PARTS = ("network.port_forwarding", "dns.recordset")


def test_each_use_by_another_project_has_the_call_that_ends_it():
    wrong = {}
    for used, type_, use, by in USES:
        user = {"type": by, "id": "u1", "owner": "them", **({"of": "o1"} if by in PARTS else {})}
        call = endings.call(used, use, user, Resource("r1", "R", "p1", USED_ROW))
        ends = re.fullmatch(r"(openstack|mistral) [a-z][^{}]*", call) and ("u1" in call or "r1" in call)
        service, _, name = used.rpartition(".")
        known = endings.remedy(used, type_, "p1", [user], Resource("r1", "R", "p1", USED_ROW))
        text = remedy(Reason.FOREIGN, Subject("d1", "p1", service, name, "r1", "project Y (y)"), known)
        said = is_whole(text) and text.startswith("project Y (y) uses it. A member") and f"'{call}'" in text
        decided = f"'openstack project deletion force --although-used {used}:r1 --reason WHY p1'" in text
        found = any(by in each.by and each.find is not None for each in type_.used_by)
        if not (ends and said and decided is found):
            wrong[f"{used}: {by}"] = (call, text)
    assert USES and wrong == {}


def test_a_remedy_names_no_project_that_its_reader_may_not_see():
    type_ = next(each for _, each in TYPES if each.name == "port")
    users = [{"type": "network.floating_ip", "id": "f1", "owner": "them"}]
    known = endings.remedy("network.port", type_, "p1", users, Resource("r1", "", "p1"))
    text = remedy(Reason.FOREIGN, Subject("d1", "p1", "network", "port", "r1"), known)
    assert text.startswith("another project uses it") and "them" not in text
    assert "'openstack floating ip unset --port f1'" in text


@pytest.mark.parametrize(
    ("users", "says"),
    [
        ([], ""),
        ([("network.floating_ip", "p1")], ""),
        ([("vendor.thing", "them")], ""),
        ([("network.floating_ip", "them"), ("vendor.thing", "them")], ""),
        ([("network.floating_ip", "them"), ("vendor.thing", "p1")], "unset --port f0"),
        ([("network.floating_ip", "them")] * 5, "and the same for the 2 others"),
    ],
    ids=str,
)
def test_a_use_without_a_known_call_has_the_remedy_of_its_reason(users, says):
    type_ = next(each for _, each in TYPES if each.name == "port")
    named = [{"type": by, "id": f"f{n}", "owner": owner} for n, (by, owner) in enumerate(users)]
    text = endings.remedy("network.port", type_, "p1", named, Resource("r1", "", "p1"))
    assert says in text and bool(text) is bool(says)


def test_what_another_project_chose_is_one_word_of_a_call():
    user = {"type": "image.member", "id": "x; rm -rf /", "owner": "them"}
    call = endings.call("image.image", None, user, Resource("i1", "", "p1"))
    assert call == "openstack image remove project i1 'x; rm -rf /'"
