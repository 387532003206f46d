"""Barbican: what a secret that is in use loses, and which secrets a leftover needs."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins import key_manager, registry
from cleanup_orchestrator.plugins.base import Resource
from tests.support.sweeps import before_delete
from tests.unit.answers import connection, project, refusal
from tests.unit.plugins.test_uses import answers, glance, named, type_of


def lists(**collections):
    """A service whose lists end after one page; it accepts every change."""

    def answer(method, path, query, body):
        name = path.strip("/").split("/")[0]
        if method != "GET":
            return 202, {}
        if path.startswith("/os-quota-sets"):
            return 200, {}
        rows = [] if query.get("marker") or query.get("offset") else collections.get(name.replace("-", "_"), [])
        return 200, {name.replace("volume-", "").replace("share-transfers", "transfers"): rows}

    return answer


CONSUMER = {"service": "block-storage", "resource_type": "volume", "resource_id": "v"}


def barbican_with(acl=()):
    def answer(method, path, query, body):
        if method == "DELETE":
            return (400, {"title": "has consumers"}) if path == "/secrets/k" and not query.get("force") else (204, "")
        if path.endswith("/acl"):
            return 200, {"read": {"users": list(acl)}}
        return 200, {"consumers": [CONSUMER]}

    return answer


@pytest.mark.parametrize(
    ("volume_key", "acl", "reason", "writes"),
    [
        ("k", (), Reason.IN_USE, [("DELETE", "/secrets/k", None), ("DELETE", "/secrets/k/consumers", CONSUMER)]),
        ("k", ("stranger",), Reason.PROTECTED, [("DELETE", "/secrets/k", None)]),
        ("other", (), None, [("DELETE", "/secrets/k", None), ("DELETE", "/secrets/k", None)]),
    ],
    ids=["its volume is there", "others may read it", "its volume is gone"],
)
def test_the_key_of_a_volume_that_is_there_loses_its_consumers_and_stays(volume_key, acl, reason, writes):
    rows = [{"id": "v", "encryption_key_id": volume_key}]
    made = connection(key_manager=barbican_with(acl), block_storage=lists(volumes=rows))
    made.config.get_session_endpoint = lambda name: "http://cloud"
    secret = Resource("k", "", "p", {"id": "k"})
    verdict = refusal(key_manager._delete_secret, made, project(members=("own",)), secret)
    assert (verdict and verdict.reason) == reason
    assert made.key_manager.writes() == writes


@pytest.mark.parametrize(
    ("row", "needed"),
    [
        ({"status": "available", "encryption_key_id": "k"}, {"k"}),
        ({"status": "error_deleting", "encryption_key_id": "k"}, set()),  # _delete_secret removes the consumer
        ({"status": "available", "metadata": {"certificate": "other"}}, {"other"}),
        (None, {"k", "other"}),
    ],
)
def test_a_volume_that_is_left_needs_what_it_names(monkeypatch, row, needed):
    monkeypatch.setattr(key_manager.needs, "knows_microversion", lambda *_: True)
    found = (200, {"volume": {"id": "v", **row}}) if row else (404, {})
    made = connection(key_manager=barbican_with(), block_storage=lambda *_: found)
    needs = key_manager.needs.keys_of("volume")(made, project(), ["v"])
    assert {id_ for id_ in ("k", "other") if needs(Resource(id_, "", "p", {"id": id_}))} == needed


def test_if_cinder_does_not_show_keys_each_secret_waits(monkeypatch):
    monkeypatch.setattr(key_manager.needs, "knows_microversion", lambda *_: False)
    needs = key_manager.needs.keys_of("volume")(connection(block_storage=lambda *_: (500, "")), project(), ["v"])
    assert needs(Resource("k", "", "p", {"id": "k"})) == "v"


@pytest.mark.parametrize(("kept", "needed"), [(False, {"tpm", "unnamed"}), (True, {"tpm", "unnamed", "password"})])
def test_a_server_that_is_left_needs_its_own_secrets_and_all_where_the_project_is_kept(kept, needed):
    known = registry.load()
    service = known.services["key-manager"]
    type_ = known.find("key-manager", "secret")
    rows = {"tpm": "vTPM secret for instance server", "unnamed": None, "password": "of the database"}
    made = connection(compute=lambda *_: (200, {"server": {"id": "server"}}))
    needs = known.needed_by(service, type_, kept)["compute.server"](made, project(), ["server"])
    found = {id_ for id_, name in rows.items() if needs(Resource(id_, "", "p", {"id": id_, "name": name}))}
    assert found == needed


OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


def barbican(users, consumers=()):
    def answer(_method, path, _query, _body):
        if path.endswith("/acl"):
            return 200, {"read": {"users": users, "project-access": True}}
        return 200, {"consumers": [dict(zip(("resource_type", "resource_id"), one, strict=True)) for one in consumers]}

    return answer


@pytest.mark.parametrize("answer", [{}, {"error": "busy"}, {"read": None}, {"read": []}, [], "busy"], ids=str)
@pytest.mark.parametrize("name", ["secret", "container"])
def test_what_barbican_answers_without_an_acl_is_no_acl_without_users(name, answer):
    """Barbican answers its default, if a user has written none."""
    cloud = connection(key_manager=lambda *_: (200, answer))
    one = Resource("s", "", OURS, {"id": "s", "consumers": [{"name": "x", "URL": "y"}]})
    verdict = before_delete(type_of(key_manager, name), cloud, PROJECT, one)
    assert verdict is not None and "could not be read" in verdict.message


@pytest.mark.parametrize("users", [[], ["reader"], ["member"]], ids=str)
@pytest.mark.parametrize(
    ("consumers", "owner", "by_property", "stays"),
    [
        ([("volume", "v")], THEIRS, None, ("block-storage.volume", THEIRS)),
        ([("volume", "v")], OURS, None, None),
        ([("volume", "gone")], THEIRS, None, None),
        ([("thing", "x")], THEIRS, None, None),
        ([("volume", ".")], THEIRS, None, None),  # a reader may register any name, and would keep the secret for ever
        ([], THEIRS, "img_signature_certificate_uuid", ("image.image", THEIRS)),
        ([], OURS, "cinder_encryption_key_id", None),
        ([], THEIRS, "cinder_encryption_key_id", ("image.image", THEIRS)),
    ],
)
def test_a_secret_that_others_can_read_and_use_stays(users, consumers, owner, by_property, stays):
    images = [{"id": "i", "owner": owner, by_property: "k"}] if by_property else []
    volumes = {"/volumes/v": {"volume": {"id": "v", "os-vol-tenant-attr:tenant_id": owner}}}
    cloud = connection(key_manager=barbican(users, consumers), image=glance(*images), block_storage=answers(volumes))
    cloud.config.get_session_endpoint = lambda name: "x" if name in ("image", "block-storage") else None
    verdict = before_delete(
        type_of(key_manager, "secret"), cloud, project(OURS, members=("member",)), Resource("k", "", OURS, {})
    )
    assert named(verdict) == ((Reason.FOREIGN, [stays]) if stays and users else None)


def test_the_option_deletes_a_secret_that_others_use():
    cloud = connection(key_manager=lambda *_: (500, {}))
    found = before_delete(
        type_of(key_manager, "secret"), cloud, project(OURS, delete_shared_secrets=True), Resource("k", "", OURS, {})
    )
    assert found is None


@pytest.mark.parametrize(
    ("users", "elsewhere", "stays"),
    [([], False, False), (["member"], False, False), (["member"], True, True), (["outsider"], False, True)],
)
def test_a_container_with_consumers_stays_if_a_user_of_another_project_can_read_it(users, elsewhere, stays):
    """A member of the project may be a member of another one, too, and read it from there."""
    scopes = [{"project": {"id": OURS}}, *([{"project": {"id": THEIRS}}] if elsewhere else [])]
    keystone = lambda *_: (200, {"role_assignments": [{"scope": scope} for scope in scopes]})  # noqa: E731
    cloud = connection(key_manager=barbican(users), identity=keystone)
    row = {"consumers": [{"name": "lb", "URL": "lbaas://x"}]}
    verdict = before_delete(
        type_of(key_manager, "container"), cloud, project(OURS, members=("member",)), Resource("c", "", OURS, row)
    )
    assert (verdict and verdict.reason) == (Reason.PROTECTED if stays else None)
