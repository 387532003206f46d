"""Freezer's clients: they are read out of an object of their own, and a central one is left to an admin."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.backup import SERVICE
from tests.support import sweeps
from tests.unit.answers import connection, project

CLIENT = next(type_ for type_ in SERVICE.types if type_.name == "client")


def row(name, owner="p", **attributes):
    return {"project_id": owner, "client": {"uuid": f"id of {name}", "client_id": name, **attributes}}


class Freezer:
    def __init__(self, *rows):
        self.rows = list(rows)

    def answer(self, method, path, query, body):
        if method == "DELETE":
            self.rows = [row for row in self.rows if path != f"/p/clients/{row['client']['client_id']}"]
            return 204, ""
        return 200, {"clients": self.rows[query["offset"] :]}


def test_a_client_is_deleted_by_its_name_and_foreign_and_central_ones_stay():
    freezer = Freezer(row("mine"), row("central", is_central=True), row("foreign", "q", is_central=True))
    swept = sweeps.delete(CLIENT, connection(backup=freezer.answer), project())
    assert [(left.id, left.name, left.reason) for left in swept.leftovers] == [
        ("id of central", "central", Reason.PROTECTED)
    ]
    assert [row["client"]["client_id"] for row in freezer.rows] == ["central", "foreign"]


def test_a_project_that_a_user_wrote_into_a_client_is_not_its_owner():
    ownerless = {"client": {"uuid": "u", "client_id": "c", "project_id": "p"}}
    freezer = Freezer(ownerless)
    swept = sweeps.delete(CLIENT, connection(backup=freezer.answer), project())
    assert [(left.id, left.reason) for left in swept.leftovers] == [("u", Reason.OWNER_UNKNOWN)]
    assert freezer.rows == [ownerless]


@pytest.mark.parametrize("wrong", [{"project_id": "p"}, {"project_id": "p", "client": None}, {"client": ["c"]}])
def test_a_row_without_a_client_makes_the_list_unknown(wrong):
    found = sweeps.inventory(CLIENT, connection(backup=Freezer(row("mine"), wrong).answer), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)
