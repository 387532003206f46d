"""What ``cloud bootstrap`` makes of a Keystone: cases of what was there before, and a death at each write."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud import bootstrap
from cleanup_orchestrator.cloud.bootstrap import Account, Bootstrap, Wanted, generated_password
from cleanup_orchestrator.cloud.keystone_rows import KEY, MARK, QUOTA_ROLE, BootstrapError, is_made_user, key_of
from tests.unit.cloud.test_projects import NOT_FOUND, response

URL = "https://cleanup.example.org"
WORKER, API = Account("worker", "cleaner"), Account("api", "clean-api")


class Death(BaseException):
    """The end of the process."""


class Keystone:
    """The rows of a Keystone, with unique names of users and roles, and with all else that it accepts twice."""

    UNIQUE = {"users": ("name", "domain_id"), "roles": ("name", "domain_id")}

    def __init__(self) -> None:
        self.ids = (f"id{number:04}" for number in itertools.count())
        self.writes, self.lives = 0, 10_000  #: how many writes are made before the process ends
        self.before_create: list[Any] = []  #: called once, before the next row is made
        self.tables: dict[str, dict[str, dict[str, Any]]] = {
            "domains": {"default": {"id": "default", "name": "Default", "enabled": True}},
            "projects": {"p": {"id": "p", "name": "service", "domain_id": "default", "enabled": True}},
            "roles": {name: {"id": name, "name": name, "domain_id": None} for name in ("admin", "reader", "member")},
            "regions": {"RegionOne": {"id": "RegionOne"}},
            **{name: {} for name in ("users", "services", "endpoints", "role_inferences")},
        }
        self.grants: set[tuple[str, str, str, bool]] = set()  #: path of the scope, user, role, whether inherited

    def rows(self, table: str) -> list[dict[str, Any]]:
        return list(self.tables[table].values())

    def _live(self) -> None:
        if self.lives <= 0:
            raise Death
        self.lives -= 1
        self.writes += 1

    def get(self, url: str) -> Any:
        path, query = urlsplit(url).path, dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
        table, *id_ = path.strip("/").split("/")
        if table == "role_assignments":
            return response({"role_assignments": [row for row in self._assignments() if self._asked(row, query)]})
        if id_:
            if id_[0] not in self.tables[table]:
                raise ka_exceptions.NotFound(response=response(NOT_FOUND, 404))
            return response({table.removesuffix("s"): self.tables[table][id_[0]]})
        query.pop("limit", None)  # there is one page
        # Like a database without case.
        found = [r for r in self.rows(table) if all(str(r.get(k)).lower() == v.lower() for k, v in query.items())]
        return response({table: found})

    def _assignments(self) -> list[dict[str, Any]]:
        rows = []
        for path, user, role, inherited in sorted(self.grants):
            kind, _, id_ = path.strip("/").partition("/")
            scope: dict[str, Any] = {"system": {"all": True}} if kind == "system" else {kind[:-1]: {"id": id_}}
            if inherited:
                scope["OS-INHERIT:inherited_to"] = "projects"
            rows.append({"user": {"id": user}, "role": {"id": role}, "scope": scope})
        return rows

    @staticmethod
    def _asked(row: dict[str, Any], query: dict[str, str]) -> bool:
        return all(row[key.split(".")[0]]["id"] == value for key, value in query.items())

    def post(self, path: str, json: Any) -> Any:
        self._live()
        if self.before_create:
            self.before_create.pop()()
        table = path.strip("/")
        [(key, values)] = json.items()
        unique = self.UNIQUE.get(table, ())
        if unique and any(all(row.get(k) == values.get(k) for k in unique) for row in self.rows(table)):
            raise ka_exceptions.Conflict("there is one")
        row = {"id": next(self.ids), "enabled": True, **{k: v for k, v in values.items() if k != "password"}}
        self.tables[table][row["id"]] = row
        return response({key: row})

    def patch(self, path: str, json: Any) -> Any:
        self._live()
        table, id_ = path.strip("/").split("/")
        [(_, values)] = json.items()
        self.tables[table][id_] |= {k: v for k, v in values.items() if k != "password"}
        return response({})

    def put(self, path: str) -> None:
        self._live()
        inherited = path.startswith("/OS-INHERIT")
        scope, _, rest = path.removeprefix("/OS-INHERIT").partition("/users/")
        user, _, role = rest.removesuffix("/inherited_to_projects").partition("/roles/")
        assert user in self.tables["users"] and role in self.tables["roles"], path
        assert inherited == path.endswith("/inherited_to_projects")
        self.grants.add((scope, user, role, inherited))

    def delete(self, path: str) -> None:
        self._live()
        table, id_ = path.strip("/").split("/")
        if self.tables[table].pop(id_, None) is None:
            raise ka_exceptions.NotFound(response=response(NOT_FOUND, 404))
        if table == "services":
            gone = [row["id"] for row in self.rows("endpoints") if row["service_id"] == id_]
            for endpoint in gone:
                del self.tables["endpoints"][endpoint]
        self.grants = {grant for grant in self.grants if id_ not in grant}

    def shape(self) -> Any:
        """What there is, without the ids that differ in each run."""
        users = {row["id"]: row["name"] for row in self.rows("users")}
        roles = {row["id"]: row["name"] for row in self.rows("roles")}
        return (
            sorted(users.values()),
            sorted(roles.values()),
            sorted((path, users[user], roles[role], inherited) for path, user, role, inherited in self.grants),
            sorted(row["type"] for row in self.rows("services")),
            sorted((row["interface"], row["region_id"], row["url"]) for row in self.rows("endpoints")),
        )


def wanted(*accounts: Account, **values: Any) -> Wanted:
    urls = {"public": URL, "internal": URL}
    given = {"user_domain": "default", "project": "service", "project_domain": "Default", "region": "RegionOne"}
    return Wanted(**{"accounts": accounts or (WORKER, API), "urls": urls, **given, **values})


def run(keystone: Keystone, *accounts: Account, dry_run: bool = False, **values: Any) -> Any:
    said: list[str] = []
    made = Bootstrap(keystone, wanted(*accounts, **values), lambda verb, what: said.append(f"{verb} {what}"))
    outcome = made.run(dry_run)
    return outcome, said


def deaths(keystone: Keystone, command: Callable[[], object]) -> int:
    """Let each run make one write, until one comes to its end; return the number of deaths."""
    for number in range(100):
        keystone.lives = 1
        try:
            command()
        except Death:
            continue
        return number
    raise AssertionError("it does not come to an end")


@pytest.fixture
def keystone(monkeypatch):
    monkeypatch.setattr(bootstrap.time, "sleep", lambda _: None)
    return Keystone()


EVERYTHING = (
    ["clean-api", "cleaner"],
    ["admin", "member", "reader"],
    [
        ("/domains/default", "cleaner", "admin", True),
        ("/projects/p", "cleaner", "admin", False),
        ("/system", "clean-api", "reader", False),
    ],
    ["project-cleanup"],
    [("internal", "RegionOne", URL), ("public", "RegionOne", URL)],
)


def test_all_is_made_and_a_second_run_writes_nothing(keystone):
    outcome, said = run(keystone)
    assert keystone.shape() == EVERYTHING
    assert set(outcome.passwords) == {"worker", "api"} and outcome.changes == len(said) == 8
    writes = keystone.writes
    outcome, said = run(keystone)
    assert keystone.writes == writes and outcome.passwords == {} and outcome.changes == 0
    assert {line.split()[0] for line in said} == {"unchanged"} and len(said) == 8


def test_a_user_that_is_made_cannot_be_locked_out_and_keeps_its_password(keystone):
    """Else anybody who knows the name locks it out with wrong passwords, or Keystone lets its password expire."""
    run(keystone)
    for row in keystone.rows("users"):
        assert row["options"] == {
            "ignore_change_password_upon_first_use": True,
            "ignore_password_expiry": True,
            "ignore_lockout_failure_attempts": True,
            "lock_password": True,
        }


def test_a_dry_run_says_the_same_and_writes_nothing(keystone):
    _, foretold = run(keystone, dry_run=True)
    assert keystone.writes == 0
    _, said = run(keystone)
    assert foretold == [f"would be {line}" for line in said]


def test_a_death_at_each_write_loses_and_doubles_nothing(keystone):
    given = {"accounts": (WORKER, API, Account("protocol", "speaker")), "quota_role": True}
    assert deaths(keystone, lambda: run(keystone, **given)) >= 15
    keystone.lives = 1000
    whole = Keystone()
    run(whole, **given)
    assert keystone.shape() == whole.shape()
    writes = keystone.writes
    run(keystone, **given)
    assert keystone.writes == writes


def test_a_domain_that_was_made_later_gets_the_role_in_the_next_run(keystone):
    run(keystone)
    keystone.tables["domains"]["later"] = {"id": "later", "name": "Later", "enabled": True}
    outcome, _ = run(keystone, urls={})
    assert outcome.changes == 1
    user_id = outcome.user_ids["worker"]
    assert ("/domains/later", user_id, "admin", True) in keystone.grants


def user(name="cleaner", **values):
    return {"id": f"of-{name}", "name": name, "domain_id": "default", "enabled": True, **values}


@pytest.mark.parametrize("forged", [{}, {MARK: "0" * 64}])
def test_a_user_of_another_person_gets_no_role_and_no_password(keystone, forged):
    """Also if it looks like one that was made in another cloud."""
    keystone.tables["users"]["of-cleaner"] = user(**forged)
    outcome, said = run(keystone, Account("worker", "cleaner", "given", True), API)
    assert keystone.writes == 0 and not said
    text = "\n".join(outcome.refused)
    assert "openstack role add --user of-cleaner --project p admin" in text
    assert "openstack role add --user of-cleaner --domain default --inherited admin" in text
    assert "openstack user set --password-prompt of-cleaner" in text


def test_the_mark_of_a_user_is_no_mark_of_another_one(keystone):
    """Who may read the users of the domain can copy a mark, but the mark of one name fits no other."""
    run(keystone, WORKER)
    (made,) = keystone.rows("users")
    keystone.tables["users"]["of-clean-api"] = user("clean-api", **{MARK: made[MARK]})
    outcome, _ = run(keystone)
    assert len(outcome.refused) == 1 and "--system all reader" in outcome.refused[0]


def test_a_user_of_another_person_that_has_all_roles_is_used(keystone):
    """As of an installation by hand."""
    keystone.tables["users"]["of-cleaner"] = user()
    keystone.grants |= {
        ("/projects/p", "of-cleaner", "admin", False),
        ("/domains/default", "of-cleaner", "admin", True),
    }
    outcome, said = run(keystone)
    assert not outcome.refused and "worker" not in outcome.passwords
    assert "unchanged user cleaner (of-cleaner, made by another person)" in said


def test_a_name_in_other_letters_is_another_user(keystone):
    keystone.tables["users"]["of-CLEANER"] = user("CLEANER")
    outcome, _ = run(keystone)
    assert not outcome.refused and outcome.user_ids["worker"] != "of-CLEANER"


def test_another_run_at_the_same_time_makes_the_user_first(keystone):
    run(keystone, API)

    def other() -> None:
        run(keystone)

    keystone.before_create.append(other)
    outcome, said = run(keystone)
    assert keystone.shape() == EVERYTHING
    assert "unchanged user cleaner" in said and not outcome.passwords, "the other run shows its password"


def test_a_name_that_keystone_takes_for_that_of_another_user_is_said(keystone):
    """MariaDB compares names without case."""
    keystone.tables["users"]["other"] = user("Cleaner")

    def conflict(path, json):
        raise ka_exceptions.Conflict("Duplicate entry")

    run(keystone, API)
    keystone.post = conflict
    with pytest.raises(BootstrapError, match=r"user cleaner in domain default.*--worker-user"):
        run(keystone, WORKER)


def test_of_two_runs_that_make_the_service_at_the_same_time_one_yields(keystone):
    keystone.before_create.append(lambda: run(keystone))
    run(keystone)
    assert keystone.shape() == EVERYTHING
    (service,) = keystone.rows("services")
    assert all(is_made_user(key_of(service), row) for row in keystone.rows("users"))


def test_services_that_a_run_left_are_deleted(keystone):
    run(keystone)
    left = {"id": "left", "type": "project-cleanup", KEY: "made:0123", "enabled": True}
    keystone.tables["services"]["left"] = left
    run(keystone)
    assert keystone.shape() == EVERYTHING


def test_a_service_with_the_users_of_another_run_is_not_left_over(keystone):
    """Its key tells that these users were made: without it, cloud remove would leave them with their roles."""
    run(keystone, Account("worker", "an-earlier-name"), urls={})
    (used,) = keystone.rows("services")
    keystone.tables["services"] = {"0": {**used, "id": "0", KEY: "made:0123", "cleanup_orchestrator_user_worker": None}}
    keystone.tables["services"][used["id"]] = used
    run(keystone)
    assert keystone.rows("services") == [used]


def test_what_a_keystone_that_makes_no_user_says_is_one_line(keystone):
    def refusing(path, json):
        raise ka_exceptions.Forbidden("no\n  user here")

    run(keystone, API)
    keystone.post = refusing
    with pytest.raises(BootstrapError, match=r"\(no user here.*\): name a domain"):
        run(keystone, WORKER)


def test_two_services_of_other_persons_are_not_chosen_from(keystone):
    for id_ in ("one", "two"):
        keystone.tables["services"][id_] = {"id": id_, "type": "project-cleanup"}
    with pytest.raises(BootstrapError, match="2 services of type project-cleanup: one, two"):
        run(keystone)
    assert keystone.writes == 0


def test_a_service_and_an_endpoint_of_another_person_stay_as_they_are(keystone):
    keystone.tables["services"]["theirs"] = {"id": "theirs", "type": "project-cleanup"}
    row = {"id": "e", "service_id": "theirs", "interface": "public", "region_id": "RegionOne", "url": "http://old"}
    keystone.tables["endpoints"]["e"] = row
    outcome, _ = run(keystone)
    assert keystone.writes == 0
    assert outcome.refused[0].endswith(f"openstack endpoint set --enable --url {URL} e")
    row["url"] = URL
    outcome, said = run(keystone)
    assert not outcome.refused and "unchanged service project-cleanup (theirs, made by another person)" in said
    assert str(keystone.tables["services"]["theirs"][KEY]).startswith("found:")


def test_an_endpoint_that_was_made_gets_another_url(keystone):
    run(keystone)
    outcome, said = run(keystone, urls={"public": "https://new", "internal": URL})
    assert outcome.changes == 1 and [line for line in said if line.startswith("changed public endpoint")]
    assert keystone.shape()[-1] == [("internal", "RegionOne", URL), ("public", "RegionOne", "https://new")]


def test_a_password_changes_only_if_asked(keystone):
    run(keystone, Account("worker", "cleaner", "first"))
    assert run(keystone, Account("worker", "cleaner", "second"))[0].passwords == {}
    outcome, said = run(keystone, Account("worker", "cleaner", "third", reset=True))
    assert outcome.passwords == {"worker": "third"} and "changed the password of user cleaner" in said


@pytest.mark.parametrize(
    ("change", "values", "says"),
    [
        (
            "no project",
            {},
            "no project is named 'service' in domain default: openstack project create --domain default",
        ),
        ("no domain", {"user_domain": "x y"}, "no domain is named 'x y': openstack domain create 'x y'"),
        ("no region", {"region": "Mars"}, "no region 'Mars'"),
        ("no role", {"role": "boss"}, "no role is named 'boss'"),
        ("disabled", {}, "domain Default is disabled.*openstack domain set --enable default"),
    ],
)
def test_what_is_missing_is_said_with_its_command_and_nothing_is_written(keystone, change, values, says):
    if change == "no project":
        keystone.tables["projects"].clear()
    if change == "disabled":
        keystone.tables["domains"]["default"]["enabled"] = False
    with pytest.raises(BootstrapError, match=says):
        run(keystone, **values)
    assert keystone.writes == 0


def test_a_disabled_user_is_refused(keystone):
    run(keystone)
    next(row for row in keystone.rows("users") if row["name"] == "cleaner")["enabled"] = False
    outcome, _ = run(keystone)
    assert "openstack user set --enable" in outcome.refused[0]


@pytest.mark.parametrize(("there", "needed", "given"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1)])
def test_barbicans_role_is_given_if_it_is_there_or_is_needed(keystone, there, needed, given):
    if there:
        keystone.tables["roles"]["q"] = {"id": "q", "name": QUOTA_ROLE}
    outcome, _ = run(keystone, quota_role=bool(needed))
    role_ids = [row["id"] for row in keystone.rows("roles") if row["name"] == QUOTA_ROLE]
    held = [grant for grant in keystone.grants if grant[2] in role_ids]
    assert len(held) == given and all(grant[:2] == ("/projects/p", outcome.user_ids["worker"]) for grant in held)


def test_generated_passwords_differ_and_have_each_kind_of_character():
    assert len({generated_password() for _ in range(20)}) == 20
    assert generated_password().endswith("Aa1!") and len(generated_password()) == 47
