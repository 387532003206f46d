"""Glance: what is listed for a project, and what a delete of an image would do to secrets and stores."""

from __future__ import annotations

import dataclasses

import pytest

from cleanup_orchestrator.plugins import image
from cleanup_orchestrator.plugins.base import Resource
from tests.unit.answers import connection, ids, listing, project, refusal, resource

OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


class Glance:
    """Images with their members, namespaces, and what it is asked."""

    def __init__(self):
        self.images = [
            {"id": "own", "owner": OURS, "name": "own", "os_hidden": False},
            {"id": "foreign", "owner": THEIRS, "name": "foreign", "os_hidden": False},
            {"id": "hidden", "owner": THEIRS, "name": "hidden", "os_hidden": True},
            {"id": "own-hidden", "owner": OURS, "name": "own-hidden", "os_hidden": True},
        ]
        self.members = {
            "own": [OURS, "third"],
            "own-hidden": [],
            "foreign": ["third", OURS],
            "hidden": ["third"],
        }
        self.queries = []

    def answer(self, method, path, query, body):
        self.queries.append((path, query))
        if path == "/metadefs/namespaces":
            owners = {"a": OURS, "b": THEIRS, "c": None}
            return 200, {"namespaces": [{"namespace": name, "owner": owner} for name, owner in owners.items()]}
        if path.endswith("/members"):
            id_ = path.split("/")[2]
            return 200, {
                "members": [{"member_id": who, "image_id": id_, "status": "accepted"} for who in self.members[id_]]
            }
        hidden = query["os_hidden"] == "true"
        owner = query.get("owner")
        rows = [row for row in self.images if row["os_hidden"] is hidden and owner in (None, row["owner"])]
        return 200, {"images": rows}


def test_metadef_namespaces_are_listed_by_owner():
    cloud = connection(image=Glance().answer)
    assert [row["namespace"] for row in listing(image, "metadef_namespace")(cloud, PROJECT)] == ["a"]


def test_memberships_of_the_project_in_images_of_others_are_listed():
    found = list(listing(image, "membership")(connection(image=Glance().answer), PROJECT))
    assert [(row["image_id"], row["member_id"]) for row in found] == [("foreign", OURS)]


def test_images_are_listed_by_owner_and_include_hidden_ones():
    glance = Glance()
    found = list(listing(image, "image")(connection(image=glance.answer), PROJECT))
    assert ids(found) == ["own", "own-hidden"]
    assert [query["owner"] for _, query in glance.queries] == [OURS, OURS]


@pytest.mark.parametrize("named", [True, False])
def test_glance_deletes_no_secret_that_an_image_names(named):
    """With the policy ``on_image_deletion`` it would, with our token: also one of the orchestrator's own project."""
    key = {"cinder_encryption_key_deletion_policy": "on_image_deletion"} if named else {}
    cloud = connection(image=lambda *_: (200, {"id": "i", "cinder_encryption_key_id": "theirs", **key}))
    image._keep_key(cloud, PROJECT, resource("i"))
    change = [{"op": "remove", "path": "/cinder_encryption_key_deletion_policy"}]
    assert [body for _, _, body in cloud.image.writes()] == ([change] if named else [])


@pytest.mark.parametrize(
    ("urls", "acts"),
    [
        (None, False),
        ([], False),
        (["rbd://f/pool/i/snap", "file:///images/i", "https://a/b"], False),
        (["file:///images/i", "cinder://lvm/victim"], True),
        (["CINDER://victim"], True),
        (["swift+https://host.of.a.tenant/v1/AUTH_x/c/o"], True),
    ],
)
@pytest.mark.parametrize("gone", [False, True])
def test_a_store_acts_on_an_images_locations_with_no_admins_token(urls, acts, gone):
    """With a Glance that lets users write them. Of a project that is gone there is no other token."""
    row = {"id": "i", **({} if urls is None else {"locations": [{"url": url} for url in urls]})}
    assert image._has_user_written_locations(Resource("i", "", OURS, row)) is acts
    cloud = connection(image=lambda *_: (200, row))
    verdict = refusal(
        image._refuse_user_written_locations, cloud, dataclasses.replace(PROJECT, gone=gone), resource("i")
    )
    assert (verdict is not None) is (acts and gone)


def test_a_namespace_keeps_its_owner_when_its_protection_is_cleared():
    cloud = connection(image=lambda *_: (200, {}))
    row = {"namespace": "a", "visibility": "private", "owner": OURS, "protected": True, "schema": "/v2/x"}
    image._unprotect_namespace(cloud, PROJECT, Resource("a", "a", OURS, row))
    [(method, _, body)] = cloud.image.writes()
    assert method == "PUT"
    assert body == {"namespace": "a", "visibility": "private", "owner": OURS, "protected": False}
