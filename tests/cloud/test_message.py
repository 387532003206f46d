"""Zaqar: subscriptions, queues and messages are deleted with a token of the project; an admin's sees nothing."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess

import pytest
import requests

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.message import SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    ids,
    test_an_inventory_finds_everything_and_changes_nothing,
    test_the_orchestrator_deletes_the_project_with_everything,
)
from tests.cloud.filler import fill
from tests.cloud.fillings.message import CLIENT, zaqar
from tests.support import sweeps

CLOUD = ("zaqar",)
OPTIONS = "[service_message]\nlist_topics = false\n"
if not shutil.which("redis-server"):
    (pytest.fail if os.environ.get("CI") else pytest.skip)("redis-server is missing", allow_module_level=True)

SUBSCRIPTION, QUEUE, TOPIC = SERVICE.types
WITHOUT_TOPICS = {"list_topics": False}


def redis(sweeper, *command):
    port = sweeper.cloud.site.ports["zaqar-redis"]
    done = subprocess.run(["redis-cli", "-p", str(port), *command], capture_output=True, text=True, check=True)
    return done.stdout.split()


def keys(sweeper, filled):
    """Return the names of the project's keys in Redis, without its id."""
    return {key.removeprefix(f"{filled.project_id}.") for key in redis(sweeper, "KEYS", f"*{filled.project_id}*")}


def existing(sweeper, filled, kind="subscription"):
    return [each for each in filled.ids[kind] if redis(sweeper, "EXISTS", each) == ["1"]]


CASE = Case(
    SERVICE,
    rows={"zaqar.Queues": 12, "keystone.trust": 1},
    found={"subscription": 15, "queue": 12, "topic": 0},
    options=WITHOUT_TOPICS,
    beside=lambda sweeper, filled: keys(sweeper, filled) if filled else sorted(redis(sweeper, "KEYS", "*")),
)


def test_topics_are_unknown_and_not_empty_until_the_operator_says_that_there_are_none(projects, further_sweeper):
    target, _ = projects
    found = further_sweeper.inventory(SERVICE, target)
    for name in ("topic", "subscription"):
        assert (found[name].outcome, found[name].reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)
        assert "list_topics = false" in found[name].message
    assert found["queue"].found == 12


def test_an_admin_of_another_project_sees_nothing_and_deletes_nothing(projects, further_admin, further_sweeper):
    """Why no type may be asked for with such a token."""
    target, _ = projects
    assert zaqar(further_admin).call("GET", "/queues")["queues"] == []
    before = further_sweeper.dump("zaqar")
    assert zaqar(further_admin).raw("DELETE", f"/queues/{target.first('queue')}").status_code == 204
    assert further_sweeper.dump("zaqar") == before
    assert {type_.fallback.if_gone for type_ in SERVICE.types} == {None}
    assert all(type_.all_projects_view() is None for type_ in SERVICE.types)


def test_a_queue_is_not_deleted_before_its_subscriptions(further_admin, further_sweeper):
    """A subscription stays after its queue, and no call lists it then."""
    filled = fill(further_admin, "message-careless", only=["message"])
    rest = zaqar(filled.connection)
    for queue in filled.ids["queue"]:
        rest.call("DELETE", f"/queues/{queue}")
    assert existing(further_sweeper, filled) == filled.ids["subscription"]
    further_sweeper.enter(filled)
    connection = further_sweeper.connection(filled.project_id)
    definition = further_sweeper.definition(SERVICE, filled, **WITHOUT_TOPICS)
    assert sweeps.inventory(SUBSCRIPTION, connection, definition).found == 0
    assert "subscription" in QUEUE.after


def test_messages_are_deleted_with_their_queue(projects, further_sweeper):
    """The trust of a subscription stays: it is deleted with those of the project. Redis keeps two keys of a queue."""
    target, neighbour = projects
    assert existing(further_sweeper, target, "message") == target.ids["message"]
    swept = further_sweeper.delete(SERVICE, target, **WITHOUT_TOPICS)
    assert {result.outcome for result in swept.values()} == {Outcome.CLEAR}
    assert CASE.alive(further_sweeper, target) == {"keystone.trust": 1}
    assert existing(further_sweeper, target) == existing(further_sweeper, target, "message") == []
    assert keys(further_sweeper, target) == {"orders-01.claims", "orders-01.rank_counter"}
    assert existing(further_sweeper, neighbour) == neighbour.ids["subscription"]


@pytest.mark.parametrize("type_", [SUBSCRIPTION, QUEUE], ids=["subscription", "queue"])
def test_a_delete_without_effect_is_no_success(further_admin, further_sweeper, type_):
    """Zaqar answers 204 to the delete of what is not there."""
    filled = fill(further_admin, "message-lies", only=["message"])
    further_sweeper.enter(filled)
    path = type_.delete.path.replace("{row[source]}", "other-{row[source]}").replace("queues/{id}", "queues/other-{id}")
    wrong = dataclasses.replace(type_, delete=dataclasses.replace(type_.delete, path=path))
    definition = further_sweeper.definition(SERVICE, filled, **WITHOUT_TOPICS)
    swept = sweeps.delete(wrong, further_sweeper.connection(filled.project_id, write=True), definition)
    assert swept.outcome is not Outcome.CLEAR
    assert ids(swept) == set(filled.ids[type_.name])


def test_a_pre_signed_url_makes_a_queue_again_without_a_token(further_admin, further_sweeper):
    """No lock of a project stops it, because Zaqar does not ask Keystone. The next inventory finds the queue."""
    filled = fill(further_admin, "message-signed", only=["message"])
    rest, queue = zaqar(filled.connection), filled.first("queue")
    asked = {"paths": ["messages"], "methods": ["POST"], "expires": "2099-01-01T00:00:00"}
    signed = rest.call("POST", f"/queues/{queue}/share", asked)

    def post(signature):
        headers = CLIENT | {
            "X-Project-ID": filled.project_id,
            "URL-Signature": signature,
            "URL-Expires": signed["expires"],
            "URL-Methods": ",".join(signed["methods"]),
            "URL-Paths": ",".join(signed["paths"]),
        }
        url = further_sweeper.cloud.site.url("zaqar") + signed["paths"][0]
        return requests.post(url, json={"messages": [{"ttl": 3600, "body": "late"}]}, headers=headers, timeout=60)

    swept = further_sweeper.delete(SERVICE, filled, **WITHOUT_TOPICS)
    assert {result.outcome for result in swept.values()} == {Outcome.CLEAR}
    assert further_sweeper.inventory(SERVICE, filled, **WITHOUT_TOPICS)["queue"].found == 0
    assert post("no signature of this Zaqar").status_code == 404  # nor is one that an earlier secret_key made
    assert further_sweeper.inventory(SERVICE, filled, **WITHOUT_TOPICS)["queue"].found == 0
    assert post(signed["signature"]).status_code == 201
    found = further_sweeper.inventory(SERVICE, filled, **WITHOUT_TOPICS)["queue"]
    assert [left.id for left in found.leftovers] == [queue]
    assert further_sweeper.delete(SERVICE, filled, **WITHOUT_TOPICS)["queue"].outcome is Outcome.CLEAR
