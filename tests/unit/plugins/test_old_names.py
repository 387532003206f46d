"""Plugins that were written with the names of version 1 of the contract."""

import dataclasses

import pytest

from cleanup_orchestrator.plugins import base
from cleanup_orchestrator.plugins.base import (
    Composition,
    Fallback,
    ForcedDelete,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Token,
)


def of_version_1(kind, **names):
    """Return a value that is declared with names of version 1, and the warnings."""
    with pytest.warns(DeprecationWarning) as warned:
        made = kind(**names)
    assert {str(warning.filename) for warning in warned} == {__file__}, "the warning is about the code of the plugin"
    return made, sorted(str(warning.message) for warning in warned)


def test_a_type_may_be_declared_with_the_names_of_version_1():
    required = {"name": "lease", "list": Rest("reservation", "/leases", key="leases"), "delete": None}
    type_, warned = of_version_1(
        ResourceType, **required, acts_on="a template", acts_on_if=lambda one: one.id == "1", fresh="a list shows it"
    )
    assert (type_.user_content, type_.why_no_show) == ("a template", "a list shows it")
    assert type_.has_user_content(Resource("1", "", None))
    assert warned == [
        f"ResourceType.{old} is {new} since version 2 of the plugin contract"
        for old, new in (("acts_on", "user_content"), ("acts_on_if", "has_user_content"), ("fresh", "why_no_show"))
    ]
    with pytest.warns(DeprecationWarning, match="fresh is why_no_show"):
        assert type_.fresh == "a list shows it"
    with pytest.warns(DeprecationWarning, match="acts_on is user_content"):
        assert dataclasses.replace(type_, acts_on="") == dataclasses.replace(type_, user_content="")


def test_groups_of_fields_may_be_declared_with_the_names_of_version_1():
    required = {"name": "stack", "list": Rest("orchestration", "/stacks", key="stacks"), "delete": None}
    abandon = Rest("orchestration", "/stacks/{id}/abandon", method="DELETE")
    old = {"force": abandon, "may_force": print, "force_keeps_contents": True, "deleted_with": ("cluster",)}
    old |= {"part_of": (("cluster", "stack_id"),), "contains": zip, "token_if_gone": Token.ADMIN, "unreadable": all}
    type_, warned = of_version_1(ResourceType, **required, **old)
    new = {
        "force": ForcedDelete(abandon, print, keeps_contents=True),
        "composition": Composition(("cluster",), (("cluster", "stack_id"),), zip),
        "fallback": Fallback(Token.ADMIN, all),
    }
    assert type_ == ResourceType(**required, **new)
    assert [sentence.split()[0] for sentence in warned] == sorted(f"ResourceType.{name}" for name in old)
    for name, value in old.items():
        if name != "force":  # the group has this name
            with pytest.warns(DeprecationWarning, match=name):
                assert getattr(type_, name) == value
    with pytest.warns(DeprecationWarning, match="contains is composition.contains"):
        changed = dataclasses.replace(type_, contains=map)
    assert changed.composition == Composition(("cluster",), (("cluster", "stack_id"),), map)
    with pytest.warns(DeprecationWarning, match="force is force.act"):
        assert dataclasses.replace(ResourceType(**required), force=abandon).force == ForcedDelete(abandon)


def test_an_old_name_without_a_value_makes_no_group():
    required = {"name": "stack", "list": Rest("orchestration", "/stacks", key="stacks"), "delete": None}
    type_, warned = of_version_1(ResourceType, **required, force=None, may_force=None, force_keeps_contents=False)
    assert type_ == ResourceType(**required)
    assert len(warned) == 2
    with pytest.warns(DeprecationWarning, match="may_force is force.allowed"):
        assert type_.may_force is None


def test_an_old_name_takes_a_value_away():
    """A type that keeps the other token would read with it what other projects own."""
    required = {"name": "stack", "list": Rest("orchestration", "/stacks", key="stacks"), "delete": None}
    new = {
        "force": ForcedDelete(zip, print, keeps_contents=True),
        "composition": Composition(("cluster",), (("cluster", "stack_id"),), zip),
        "fallback": Fallback(Token.ADMIN, all),
    }
    type_ = ResourceType(**required, **new)
    for name, nothing, group, field in (
        ("may_force", None, "force", "allowed"),
        ("force_keeps_contents", False, "force", "keeps_contents"),
        ("deleted_with", (), "composition", "deleted_with"),
        ("part_of", (), "composition", "part_of"),
        ("contains", None, "composition", "contains"),
        ("token_if_gone", None, "fallback", "if_gone"),
        ("unreadable", None, "fallback", "unreadable"),
    ):
        with pytest.warns(DeprecationWarning, match=name):
            changed = dataclasses.replace(type_, **{name: nothing})
        expected = dataclasses.replace(new[group], **{field: nothing})
        assert changed == dataclasses.replace(type_, **{group: expected}), name


def test_what_is_said_about_a_force_that_there_is_not_has_no_effect():
    """In version 1, such a plugin is loaded."""
    required = {"name": "stack", "list": Rest("orchestration", "/stacks", key="stacks"), "delete": None}
    for more in ({}, {"force": None}):
        type_, _warned = of_version_1(ResourceType, **required, **more, may_force=print, force_keeps_contents=True)
        assert type_ == ResourceType(**required)


def test_a_project_may_be_asked_with_the_names_of_version_1():
    names = {"id": "p", "name": "", "domain_id": "", "region": ""}
    project, warned = of_version_1(ProjectDefinition, **names, outside=True)
    assert project.uses_own_token
    assert warned == ["ProjectDefinition.outside is uses_own_token since version 2 of the plugin contract"]
    with pytest.warns(DeprecationWarning, match="outside is uses_own_token"):
        assert project.outside is True


def test_a_constant_may_be_imported_with_the_name_of_version_1():
    with pytest.warns(DeprecationWarning, match="base.NOTHING is NIL_UUID since version 2") as warned:
        from cleanup_orchestrator.plugins.base import NOTHING
    assert NOTHING == base.NIL_UUID
    assert warned[0].filename == __file__, "the warning is about the code of the plugin"
    with pytest.raises(AttributeError, match=r"'cleanup_orchestrator.plugins.base' has no attribute 'MISSING'"):
        _ = base.MISSING


def test_the_names_of_this_version_are_no_reason_for_a_warning(recwarn):
    required = {"name": "lease", "list": Rest("reservation", "/leases", key="leases"), "delete": None}
    ResourceType(**required, user_content="a template", why_no_show="a list shows it")
    ProjectDefinition("p", "", "", "", uses_own_token=True)
    assert not recwarn.list
