"""The users that are janitors: their passwords, and how they are made, found and deleted in Keystone."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud import janitors
from cleanup_orchestrator.cloud.janitors import Janitor, Users
from cleanup_orchestrator.errors import BadAnswer, NoJanitor
from tests.unit.cloud.test_projects import NOT_FOUND, response

NAME = "cleanup-janitor-d"
WANTED = Janitor(NAME, "dom", "derived")
MINE = {"id": "mine", "name": NAME, "domain_id": "dom"}
#: Named like it: in another domain, and in other letters, which MariaDB takes for the same.
ALIKE = [{**MINE, "id": "far", "domain_id": "q"}, {**MINE, "id": "loud", "name": NAME.upper()}]


class Keystone:
    """The users of Keystone, as its answers show them."""

    def __init__(self, *rows, error=None, truncated=False):
        self.rows, self.error, self.truncated, self.did = list(rows), error, truncated, []

    def get(self, path):
        assert path == f"/users?name={NAME}&domain_id=dom"
        return response({"users": self.rows, "truncated": self.truncated})

    def post(self, path, json):
        self.did.append((path, json["user"]))
        if self.error is not None:
            raise self.error
        return response({"user": MINE})

    def delete(self, path):
        self.did.append(path)
        if self.error is not None:
            raise self.error


@given(secret=st.text(min_size=1), deletion=st.uuids().map(str))
def test_each_password_passes_the_usual_rules(secret, deletion):
    made = janitors.password(secret, deletion)
    assert len(made.encode()) == 47, "bcrypt reads 72"
    for kind in ("[a-z]", "[A-Z]", "[0-9]", "[^a-zA-Z0-9]"):
        assert re.search(kind, made)
    assert made == janitors.password(secret, deletion)
    assert made not in (janitors.password(secret + "x", deletion), janitors.password(secret, deletion[::-1] + "x"))


def test_a_user_is_made_that_no_rule_locks_out():
    keystone = Keystone()
    assert Users(keystone).make(WANTED, "about") == "mine"
    [(path, user)] = keystone.did
    assert (path, user["name"], user["domain_id"], user["password"]) == ("/users", NAME, "dom", "derived")
    assert all(user["options"].values()) and "default_project_id" not in user


def test_a_user_that_is_there_already_is_used():
    assert Users(Keystone(*ALIKE, MINE, error=ka_exceptions.Conflict())).make(WANTED, "about") == "mine"


@pytest.mark.parametrize(
    "error",
    [
        ka_exceptions.Forbidden("read only"),
        ka_exceptions.HttpNotImplemented("LDAP"),
        ka_exceptions.BadRequest("the password does not match"),
        ka_exceptions.NotFound("no such domain"),
        ka_exceptions.Conflict("it exists, and is not shown"),
    ],
)
def test_a_domain_that_takes_no_users_is_named_with_the_way_out(error):
    with pytest.raises(NoJanitor) as refused:
        Users(Keystone(*ALIKE, error=error)).make(WANTED, "about")
    for part in (NAME, "domain dom", str(error.http_status), error.message, "[janitor] domain_id"):
        assert part in str(refused.value)
    assert "derived" not in str(refused.value)


def test_an_outage_says_nothing_about_the_domain():
    with pytest.raises(ka_exceptions.ServiceUnavailable):
        Users(Keystone(error=ka_exceptions.ServiceUnavailable())).make(WANTED, "about")


@pytest.mark.parametrize(
    ("rows", "error", "there", "did"),
    [
        ([*ALIKE, MINE], None, True, ["/users/mine"]),
        ([*ALIKE, MINE], ka_exceptions.NotFound(response=response(NOT_FOUND, 404)), False, ["/users/mine"]),
        (ALIKE, None, False, []),
        ([], None, False, []),
    ],
)
def test_only_the_user_with_exactly_this_name_is_deleted(rows, error, there, did):
    keystone = Keystone(*rows, error=error)
    assert Users(keystone).remove(NAME, "dom") is there
    assert keystone.did == did


@pytest.mark.parametrize("keystone", [Keystone(MINE, MINE), Keystone(truncated=True)])
def test_a_list_that_proves_nothing_deletes_nothing(keystone):
    with pytest.raises(BadAnswer):
        Users(keystone).remove(NAME, "dom")
    assert keystone.did == []
