"""Horizon's own delete of projects, which an operator can rename or hide."""

import types

import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard.deletions import project_actions


class Delete:
    name = "delete"

    @staticmethod
    def action_present(count):
        return "Delete Project"

    def allowed(self):
        return "as Horizon decides"


class Edit:
    name = "edit"


class OfPlugin(Delete):
    """Another plugin can give its own action the name of Horizon's."""


def made(row_actions, table_actions, menu=()):
    """Return a table as Horizon makes it: of actions with the same name, one is made."""
    meta = types.SimpleNamespace(row_actions=row_actions, table_actions=table_actions, table_actions_menu=menu)
    actions = {action.name: action() for action in (*row_actions, *table_actions, *menu)}
    return types.SimpleNamespace(_meta=meta, base_actions=actions)


def shown(table):
    """Return the classes of the actions that Horizon shows: it looks each of a list up by its name."""
    meta = table._meta
    return [
        [type(table.base_actions[action.name]) for action in actions]
        for actions in (meta.row_actions, meta.table_actions, meta.table_actions_menu)
    ]


@pytest.fixture
def table():
    return made((Edit, Delete), (Delete,))


def test_the_delete_of_horizon_stays_by_default(table):
    project_actions._change_delete(table, Delete, "keep")
    assert table._meta.row_actions == (Edit, Delete) and type(table.base_actions["delete"]) is Delete


def test_a_hidden_delete_is_in_no_menu(table):
    project_actions._change_delete(table, Delete, "hide")
    assert (table._meta.row_actions, table._meta.table_actions, [*table.base_actions]) == ((Edit,), (), ["edit"])


def test_a_hidden_delete_is_not_in_the_menu_above_the_table():
    table = made((Edit,), (Edit,), (Edit, Delete))
    project_actions._change_delete(table, Delete, "hide")
    assert shown(table) == [[Edit], [Edit], [Edit]]


@pytest.mark.parametrize("choice", ["hide", "rename"])
@pytest.mark.parametrize(
    "row_actions, table_actions",
    [((OfPlugin,), (Edit, Delete)), ((Edit, Delete), (OfPlugin,)), ((Edit, Delete, OfPlugin), (Delete,))],
)
def test_the_action_of_another_plugin_stays_although_it_has_the_same_name(choice, row_actions, table_actions):
    table = made(row_actions, table_actions)
    project_actions._change_delete(table, Delete, choice)
    assert OfPlugin in (*table._meta.row_actions, *table._meta.table_actions)
    kept = {kind for kinds in shown(table) for kind in kinds}
    assert OfPlugin in kept and Delete not in kept


def test_a_renamed_delete_says_what_it_leaves_and_does_the_same(table):
    project_actions._change_delete(table, Delete, "rename")
    renamed = table.base_actions["delete"]
    assert str(renamed.action_present(1)) == "Delete Project (leaves its resources)"
    assert renamed.allowed() == "as Horizon decides"
    assert table._meta.row_actions == (Edit, type(renamed)) and table._meta.table_actions == (type(renamed),)


def test_another_value_is_refused(table):
    with pytest.raises(ImproperlyConfigured, match="PROJECT_CLEANUP_KEYSTONE_DELETE"):
        project_actions._change_delete(table, Delete, "Hide")


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("offered", [True, False])
def test_the_action_of_a_row_follows_the_policy_for_its_project(monkeypatch, allowed, offered):
    asked = []
    monkeypatch.setattr(project_actions.calls, "allowed", lambda _, *about: asked.append(about) or allowed)
    request = types.SimpleNamespace(user=types.SimpleNamespace(has_perms=lambda _: offered))
    project = types.SimpleNamespace(id="p", domain_id="d")
    assert project_actions.DeleteWithContents().allowed(request, project) is (allowed and offered)
    assert asked == ([("cleanup:deletions:create", "d", "p")] if offered else [])
