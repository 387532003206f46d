"""What others may be using is protected by default, and each protection has its own switch."""

import re

import pytest

from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource
from tests.support.sweeps import before_delete
from tests.unit.answers import connection
from tests.unit.repository.test_docs import DOC

INSTALLED = registry.load()
NETWORK = {"is_shared": False, "is_router_external": False}

#: (service, type, row, the switches that it takes; empty: nothing protects it)
CASES = [
    ("image", "image", {"visibility": "private"}, []),
    ("image", "image", {"visibility": "shared"}, []),  # whether it has members takes a call: below
    ("image", "image", {"visibility": "public"}, ["delete_public_images"]),
    ("image", "image", {"visibility": "community"}, ["delete_community_images"]),
    ("image", "metadef_namespace", {"visibility": "private"}, []),
    ("image", "metadef_namespace", {"visibility": "public"}, ["delete_public_namespaces"]),
    ("network", "network", NETWORK, []),
    ("network", "network", {**NETWORK, "is_shared": True}, ["delete_shared"]),
    ("network", "network", {**NETWORK, "is_router_external": True}, ["delete_external"]),
    ("network", "network", {"is_shared": True, "is_router_external": True}, ["delete_shared", "delete_external"]),
    ("network", "subnet_pool", {"is_shared": True}, ["delete_shared"]),
    ("network", "subnet_pool", {"is_default": True}, ["delete_shared"]),
    ("network", "address_scope", {"is_shared": True}, ["delete_shared"]),
    ("network", "security_group", {"shared": True}, ["delete_shared"]),
    ("network", "address_group", {"shared": True}, ["delete_shared"]),
    ("network", "qos_policy", {"is_shared": True}, ["delete_shared"]),
    ("network", "rbac_policy", {"target_project_id": "*"}, ["delete_shared"]),
    ("network", "rbac_policy", {"target_project_id": "them"}, []),
    ("network", "metering_label", {"is_shared": True}, ["delete_shared"]),
    ("network", "firewall_policy", {"shared": True}, ["delete_shared"]),
    ("shared-file-system", "share", {"is_public": False}, []),
    ("shared-file-system", "share", {"is_public": True}, ["delete_public_shares"]),
]


def defaults(service, *on):
    options = {option.dest: option.default for option in INSTALLED.services[service].options}
    assert set(on) <= set(options)
    return ProjectDefinition("us", "Us", "default", "R1", options=options | dict.fromkeys(on, True))


def protected(service, type_, row, *on):
    resource = Resource("1", "one", "us", {"id": "1", **row})
    found = INSTALLED.find(service, type_)
    return [why for rule in found.protect if (why := rule(resource, defaults(service, *on)))]


@pytest.mark.parametrize(("service", "type_", "row", "switches"), CASES, ids=str)
def test_a_resource_is_protected_until_all_its_options_are_on(service, type_, row, switches):
    assert bool(protected(service, type_, row)) is bool(switches)
    every = [o.dest for o in INSTALLED.services[service].options if o.default is False]
    assert not protected(service, type_, row, *switches)
    for one in switches:
        assert protected(service, type_, row, *(s for s in every if s != one)), f"nothing but {one} stands for it"


@pytest.mark.parametrize(
    ("service", "type_", "row"), [("baremetal", "node", {}), ("network", "subnet", {"_network_is_protected": True})]
)
def test_no_option_lifts_this_protection(service, type_, row):
    assert protected(service, type_, row, *(o.dest for o in INSTALLED.services[service].options if o.default is False))


def glance_with(*members):
    """A connection to a Glance that shows these members of an image, and to no other service."""
    rows = [{"member_id": who, "status": status} for who, status in members]
    return connection(image=lambda *_: (200, {"members": rows}))


@pytest.mark.parametrize(
    ("members", "refused"),
    [
        ([], False),
        ([("us", "accepted")], False),
        ([("them", "rejected")], False),
        ([("them", "pending")], True),
        ([("them", "accepted")], True),
    ],
    ids=str,
)
def test_an_image_that_others_are_members_of_takes_a_switch(members, refused):
    image = Resource("1", "one", "us", {"visibility": "shared"})
    glance, type_ = glance_with(*members), INSTALLED.find("image", "image")
    assert before_delete(type_, glance, defaults("image", "delete_shared_images"), image) is None
    verdict = before_delete(type_, glance, defaults("image"), image)
    assert ("shared with another project" in verdict.message) if refused else verdict is None


def test_the_manual_names_every_switch_and_no_other():
    page = (DOC / "admin" / "configuration.rst").read_text()
    section = page.partition("\nResources that other projects may use\n---")[2]
    table = section.partition("\nMembers of a project can create")[0]
    assert table, "the page has no such section: has it been renamed?"
    named = set(re.findall(r"- ``\[service_(\w+)\] (\w+)``", table))
    switches = {
        (service.service_type.replace("-", "_"), option.dest)
        for service in INSTALLED.services.values()
        for option in service.options
        if option.dest.startswith(("delete_", "drop_")) and option.dest != "delete_account"
    }
    ours = {"image", "network", "key_manager"}
    assert {each for each in named if each[0] in ours} == {each for each in switches if each[0] in ours}
    assert all(
        option.default is False
        for service in INSTALLED.services.values()
        for option in service.options
        if option.dest.startswith(("delete_", "drop_"))
    )


@pytest.mark.parametrize(
    ("visibility", "by", "option"),
    [
        ("public", "an admin made it", "delete_public_images"),
        ("community", "a member of the project, or an admin, made it", "delete_community_images"),
    ],
)
def test_the_report_names_who_published_an_image_and_how_to_make_it_private(visibility, by, option):
    (why,) = protected("image", "image", {"visibility": visibility})
    assert by in why
    assert why.endswith(f"an admin may make it private, or the operator sets [service_image] {option}")


def test_the_report_counts_the_members_of_an_image_by_status_and_the_message_names_none():
    image = Resource("1", "one", "us", {"id": "1", "visibility": "shared"})
    glance = glance_with(("them", "pending"), ("others", "accepted"))
    verdict = before_delete(INSTALLED.find("image", "image"), glance, defaults("image"), image)
    why = verdict.message
    assert "shared with 2 other projects (1 accepted, 1 pending), by a member of its own project" in why
    assert [blocker["owner"] for blocker in verdict.blocked_by] == ["them", "others"]
    assert why.endswith("or the operator sets [service_image] delete_shared_images")
