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


@pytest.fixture
def table():
    meta = types.SimpleNamespace(row_actions=(Edit, Delete), table_actions=(Delete,))
    return types.SimpleNamespace(_meta=meta, base_actions={"edit": Edit(), "delete": Delete()})


def test_the_delete_of_horizon_stays_by_default(table):
    project_actions._change_delete(table, "keep")
    assert table._meta.row_actions == (Edit, Delete) and type(table.base_actions["delete"]) is Delete


def test_a_hidden_delete_is_in_no_menu(table):
    project_actions._change_delete(table, "hide")
    assert (table._meta.row_actions, table._meta.table_actions, [*table.base_actions]) == ((Edit,), (), ["edit"])


def test_a_renamed_delete_says_what_it_leaves_and_does_the_same(table):
    project_actions._change_delete(table, "rename")
    renamed = table.base_actions["delete"]
    assert str(renamed.action_present(1)) == "Delete Project (leaves its resources)"
    assert renamed.allowed() == "as Horizon decides"
    assert table._meta.row_actions == (Edit, type(renamed)) and table._meta.table_actions == (type(renamed),)


def test_another_value_is_refused(table):
    with pytest.raises(ImproperlyConfigured, match="PROJECT_CLEANUP_KEYSTONE_DELETE"):
        project_actions._change_delete(table, "Hide")
