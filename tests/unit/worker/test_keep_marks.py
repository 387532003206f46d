"""Keep marks: what an owner marked is never deleted, nor dragged along, nor taken apart."""

import dataclasses

import pytest
from oslo_config import cfg

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import ROW, Composition, ResourceType, Service
from cleanup_orchestrator.plugins.registry import InvalidPlugin, Registry
from cleanup_orchestrator.worker.sweep import exclusions
from cleanup_orchestrator.worker.sweep.context import RelatedType
from cleanup_orchestrator.worker.sweep.exclusions import KeepMarks
from tests.support import sweeps
from tests.unit.worker.test_deleting import US, HttpError, Shelf, row

TAGGED = ResourceType("thing", list=lambda *_: (), delete=None, tags="tags")
WITH_METADATA = ResourceType("thing", list=lambda *_: (), delete=None, properties="metadata")
INLINE = ResourceType("image", list=lambda *_: (), delete=None, properties=ROW)
PLAIN = ResourceType("thing", list=lambda *_: (), delete=None)


def configured(tags="", properties=""):
    conf = cfg.ConfigOpts()
    conf.register_opts(exclusions.OPTS["protection"], group="protection")
    conf([])
    conf.set_override("keep_tags", tags.split(",") if tags else [], group="protection")
    conf.set_override("keep_properties", properties.split(",") if properties else [], group="protection")
    return KeepMarks.from_conf(conf)


KEEP = configured("keep,do-not-delete", "keep,owner=finance,level= 3 ")


@pytest.mark.parametrize(
    ("type_", "values", "why"),
    [
        (TAGGED, {"tags": []}, None),
        (TAGGED, {"tags": ["web", "keeper", "not-keep"]}, None),
        (TAGGED, {"tags": ["web", "keep"]}, "its tag 'keep' is a keep mark"),
        (TAGGED, {"tags": ["KEEP"]}, "its tag 'KEEP' is a keep mark"),
        (TAGGED, {"tags": ("do-not-delete",)}, "its tag 'do-not-delete' is a keep mark"),
        (TAGGED, {}, "it does not show its tags, and may bear a keep mark"),
        (TAGGED, {"tags": None}, "it does not show its tags, and may bear a keep mark"),
        (TAGGED, {"tags": [{"name": "keep"}]}, "one of its tags is no text, and may be a keep mark"),
        (TAGGED, {"tags": ["web", ["keep"]]}, "one of its tags is no text, and may be a keep mark"),
        (TAGGED, {"tags": "keep,web"}, "it does not show its tags, and may bear a keep mark"),
        (TAGGED, {"tags": [], "metadata": {"keep": "1"}}, None),
        (WITH_METADATA, {"metadata": {}}, None),
        (WITH_METADATA, {"metadata": {"keeps": "1", "owner": "sales"}}, None),
        (WITH_METADATA, {"metadata": {"keep": ""}}, "its property 'keep=' is a keep mark"),
        (WITH_METADATA, {"metadata": {"Keep": None}}, "its property 'Keep=None' is a keep mark"),
        (WITH_METADATA, {"metadata": {"owner": "Finance"}}, "its property 'owner=Finance' is a keep mark"),
        (WITH_METADATA, {"metadata": {"level": 3}}, "its property 'level=3' is a keep mark"),
        (WITH_METADATA, {"metadata": {"level": 30}}, None),
        (WITH_METADATA, {}, "it does not show its metadata, and may bear a keep mark"),
        (WITH_METADATA, {"metadata": ["keep"]}, "it does not show its metadata, and may bear a keep mark"),
        (WITH_METADATA, {"metadata": {}, "tags": ["keep"]}, None),
        (INLINE, {"keep": "yes"}, "its property 'keep=yes' is a keep mark"),
        (INLINE, {"level": "3"}, "its property 'level=3' is a keep mark"),
        (INLINE, {"owner": "us"}, None),
        (PLAIN, {"tags": ["keep"], "metadata": {"keep": "1"}, "keep": "1"}, None),
    ],
)
def test_a_resource_with_a_keep_mark_is_kept_and_the_keep_mark_is_named(type_, values, why):
    assert KEEP.why(type_, row("1", **values)) == why


@pytest.mark.parametrize("type_", [TAGGED, WITH_METADATA, INLINE])
def test_without_configured_keep_marks_nothing_is_kept(type_):
    for values in ({}, {"tags": None, "metadata": None}, {"tags": ["keep"], "metadata": {"keep": "1"}}):
        assert KeepMarks().why(type_, row("1", **values)) is None
        assert configured(" , ", "").why(type_, row("1", **values)) is None


@pytest.mark.parametrize("bad", ["=value", " =value", "="])
def test_a_property_without_a_key_is_refused_when_it_is_read(tmp_path, bad):
    path = tmp_path / "c"
    path.write_text(f"[protection]\nkeep_properties = ok,{bad}\n")
    conf = cfg.ConfigOpts()
    conf.register_opts(exclusions.OPTS["protection"], group="protection")
    conf([f"--config-file={path}"])
    with pytest.raises(cfg.ConfigFileValueError):
        KeepMarks.from_conf(conf)


def test_a_value_may_have_an_equals_sign_in_it():
    assert configured(properties="k=a=b").why(WITH_METADATA, {"metadata": {"k": "a=b"}}) is not None


# ------------------------------------------------------------------------------------------------------- the sweep
def listed(type_, **kwargs):
    return sweeps.inventory(type_, None, US, keep_marks=KEEP, **kwargs)


def deleted(type_, **kwargs):
    return sweeps.delete(type_, None, US, parallel=1, keep_marks=KEEP, **kwargs)


@pytest.mark.parametrize("do", [listed, deleted])
def test_a_resource_with_a_keep_mark_is_a_leftover_and_never_deleted(do):
    shelf = Shelf(row("1", tags=["keep"]), row("2", tags=[]))
    result = do(shelf.type(tags="tags"))
    assert "1" not in shelf.deletes
    left = {leftover.id: leftover for leftover in result.leftovers}
    assert (left["1"].reason, left["1"].message) == (
        Reason.PROTECTED,
        "its tag 'keep' is a keep mark: any member of the project may set one, and its service does not record who "
        "did; an admin can remove it, or the operator can take it off the list ([protection] keep_tags, "
        "keep_properties)",
    )
    assert ("2" in left) is (do is listed)


def test_a_resource_that_gets_a_keep_mark_after_the_listing_is_not_deleted():
    shelf = Shelf(row("1", tags=[]))

    def show(connection, project, resource):
        shelf.rows["1"]["tags"] = ["keep"]
        return shelf.show(connection, project, resource)

    result = deleted(shelf.type(tags="tags", show=show))
    assert shelf.deletes == []
    assert [leftover.reason for leftover in result.leftovers] == [Reason.PROTECTED]


def test_nothing_is_prepared_for_a_resource_with_a_keep_mark():
    shelf, prepared = Shelf(row("1", tags=["keep"])), []
    deleted(shelf.type(tags="tags", prepare=(lambda *_: prepared.append("it"),)))
    assert prepared == []


def related(shelf, whole, attribute, **values):
    return RelatedType("part", shelf.type(name="part", tags="tags", **values), US, whole, attribute)


@pytest.mark.parametrize("do", [listed, deleted])
def test_a_whole_is_kept_when_a_part_of_it_has_a_keep_mark(do):
    wholes = Shelf(row("net1", tags=[]), row("net2", tags=[]))
    parts = Shelf(row("sub1", tags=["keep"], network_id="net1"), row("sub2", tags=[], network_id="net2"))
    result = do(wholes.type(tags="tags"), related=[related(parts, False, "network_id")])
    left = {leftover.id: leftover for leftover in result.leftovers}
    assert left["net1"].reason is Reason.PROTECTED
    assert "its part sub1" in left["net1"].message and "'keep'" in left["net1"].message
    assert wholes.deletes == (["net2"] if do is deleted else [])


@pytest.mark.parametrize("do", [listed, deleted])
def test_a_part_is_kept_when_its_whole_has_a_keep_mark(do):
    wholes = Shelf(row("net1", tags=["keep"]), row("net2", tags=[]))
    parts = Shelf(row("sub1", tags=[], network_id="net1"), row("sub2", tags=[], network_id="net2"))
    result = do(parts.type(tags="tags"), related=[related(wholes, True, "network_id")])
    left = {leftover.id: leftover for leftover in result.leftovers}
    assert left["sub1"].reason is Reason.PROTECTED and "net1 is kept" in left["sub1"].message
    assert parts.deletes == (["sub2"] if do is deleted else [])


@pytest.mark.parametrize(("attribute", "value"), [("", "net1"), ("network_id", None)])
def test_a_keep_mark_keeps_all_parts_when_their_whole_is_not_declared(attribute, value):
    wholes = Shelf(row("net1", tags=[]), row("net2", tags=[]))
    parts = Shelf(row("sub1", tags=["keep"], network_id=value))
    deleted(wholes.type(tags="tags"), related=[related(parts, False, attribute)])
    assert wholes.deletes == []
    wholes.rows["net1"]["tags"], parts.rows["sub1"]["tags"] = ["keep"], []
    deleted(parts.type(tags="tags"), related=[related(wholes, True, attribute)])
    assert parts.deletes == []


def test_parts_that_cannot_be_listed_do_not_count_as_unmarked():
    wholes, parts = Shelf(row("1", tags=[])), Shelf()
    parts.list_error = HttpError(500)
    for do in (listed, deleted):
        assert do(wholes.type(tags="tags"), related=[related(parts, False, "network_id")]).outcome is Outcome.UNKNOWN
    assert wholes.deletes == []


def test_parts_that_only_another_token_lists_keep_the_whole():
    wholes, parts = Shelf(row("1", tags=[])), Shelf()
    result = deleted(wholes.type(tags="tags"), related=[related(parts, False, "whole_id", token=Token.PROJECT)])
    assert wholes.deletes == []
    assert "cannot be read" in result.leftovers[0].message


def test_without_keep_marks_no_related_type_is_listed():
    wholes, parts = Shelf(row("1", tags=[])), Shelf()
    parts.list_error = HttpError(500)
    result = sweeps.delete(wholes.type(tags="tags"), None, US, related=[related(parts, False, "network_id")])
    assert result.deleted == (("1", "n-1"),)


# ---------------------------------------------------------------------------------------------------- the plugins
def thing(name, **values):
    return ResourceType(name, list=lambda *_: (), delete=None, **values)


def test_the_registry_knows_both_directions():
    subnet = thing("subnet", composition=Composition(part_of=(("network", "network_id"),)))
    volume = thing("volume", composition=Composition(deleted_with=("compute.server",)))
    network, compute = Service("network", (thing("network"), subnet)), Service("compute", (thing("server"),))
    found = Registry([network, compute, Service("block-storage", (volume,))])
    names = lambda service, type_: [  # noqa: E731
        (s.service_type, t.name, whole, attribute) for s, t, whole, attribute in found.related_types(service, type_)
    ]
    assert names(network, network.types[0]) == [("network", "subnet", False, "network_id")]
    assert names(network, subnet) == [("network", "network", True, "network_id")]
    assert names(compute, compute.types[0]) == [("block-storage", "volume", False, "")]


def test_a_part_of_an_undeclared_type_is_refused():
    with pytest.raises(InvalidPlugin, match=r"network\.subnet is part of network\.net"):
        Registry([Service("network", (thing("subnet", composition=Composition(part_of=(("net", "network_id"),))),))])


@pytest.mark.parametrize(
    ("service", "type_", "related"),
    [
        ("network", "network", {("subnet", False, "network_id"), ("rbac_policy", False, "object_id")}),
        ("network", "subnet", {("network", True, "network_id")}),
        ("network", "router", {("router_port", False, "device_id"), ("conntrack_helper", False, "router_id")}),
        ("network", "router_port", {("router", True, "device_id")}),
    ],
)
def test_what_neutron_takes_along(service, type_, related):
    installed = registry.load()
    found = installed.related_types(installed.services[service], installed.find(service, type_))
    assert {(t.name, whole, attribute) for _, t, whole, attribute in found} == related


TAGGED_BY_NEUTRON = """
    network subnet port router_port router floating_ip trunk security_group default_security_group subnet_pool
    qos_policy
"""
MARKABLE = {"image.image": (True, True), **{f"network.{name}": (True, False) for name in TAGGED_BY_NEUTRON.split()}}


def test_the_manual_names_every_type_that_can_have_a_keep_mark():
    from tests.unit.repository.test_docs import DOC

    page = (DOC / "admin" / "configuration.rst").read_text().partition("\nKeep marks\n")[2].partition("\n===")[0]
    installed = registry.load()
    found = {}
    for service in installed.services.values():
        for type_ in service.types:
            if type_.tags or type_.properties:
                found[f"{service.service_type}.{type_.name}"] = (bool(type_.tags), bool(type_.properties))
    ours = {name: can for name, can in found.items() if name.split(".")[0] in ("image", "network")}
    assert ours == MARKABLE
    assert [name for name in ours if f"``{name}``" not in page] == []


def test_keep_marks_apply_only_to_types_with_a_keep_mark_field():
    assert not KEEP.may_be_on(PLAIN)
    assert KEEP.may_be_on(TAGGED) and KEEP.may_be_on(INLINE)
    assert not configured("keep").may_be_on(WITH_METADATA)
    assert not dataclasses.replace(KEEP, tags=frozenset()).may_be_on(TAGGED)
