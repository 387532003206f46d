"""Zaqar: subscriptions, queues with their messages, and topics.

Every list shows the token's project alone, so all types need a token that is scoped into the project. An admin of
another project is shown an empty list, and gets a success (204) for a delete that does nothing.

Zaqar sends messages to the address or by mail to the recipient of a subscription only when a message is posted, or when
the subscription is made. When a subscription or a queue is deleted, Zaqar calls nothing. The trust that Zaqar makes for
a subscription (``trust+http``) stays after the subscription, and is deleted with the trusts of the project.

A queue may appear again after its delete without a token: a message or a subscription that is posted to a pre-signed
URL creates the queue (zaqar transport/middleware/auth.py, transport/wsgi/v2_0/messages.py). Zaqar keeps no record of
these URLs, so that no call lists or withdraws them.

No separate types: messages and claims cannot be used without their queue. They expire by themselves. Flavors and pools
belong to the operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    SCOPED,
    BadAnswer,
    Collection,
    Paging,
    ProjectDefinition,
    ResourceType,
    Row,
    Service,
    Token,
    Use,
    exceptions,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "message"

OPTIONS = (
    cfg.BoolOpt(
        "list_topics",
        default=True,
        help="Whether Zaqar has topics. It has topics only with MongoDB as its management store. With another store it "
        "answers 503 to the list of topics, as it does when the store fails, so that nothing is known about topics. If "
        "Zaqar has another store, set this option to false.",
    ),
)

#: Zaqar refuses a request without it. It hides from a client the messages that the same client has posted.
_CLIENT = {"Client-ID": "c1ea4042-0a7c-4e57-8a5b-07c4e57a70ff"}
_SCOPED_LISTS = "every list of Zaqar is bound to the token's project"
_FRESH = "the token is scoped into the project, and Zaqar shows nothing else"


def _collection(path: str, **query: str) -> Collection:
    """Return a collection.

    Its list has no limit, because Zaqar refuses one that is above its options. The last page links to a further one,
    which is empty.
    """
    return Collection(TYPE, path, own_query=query, headers=_CLIENT, paging=Paging.LINKS)


_QUEUES, _TOPICS = _collection("/queues", detailed="true"), _collection("/topics", detailed="true")


def _topics(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the topics.

    :raises BadAnswer: Zaqar has no topics, or its store fails: it answers the same
    """
    try:
        yield from _TOPICS.own.rows(connection, project)
    except exceptions.HttpException as error:
        if error.status_code != 503:
            raise
        raise BadAnswer(
            "Zaqar answered 503 to the list of topics. If its management store is not MongoDB, it has no topics: "
            "set list_topics = false in [service_message]"
        ) from error


def _has_topics(connection: Connection, project: ProjectDefinition) -> bool:
    return bool(project.options.get("list_topics"))


def _subscriptions(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the subscriptions of each queue and topic."""
    for collection, rows in (
        ("queues", _QUEUES.own.rows(connection, project)),
        ("topics", _topics(connection, project) if _has_topics(connection, project) else ()),
    ):
        for each in rows:
            listing = _collection(f"/{collection}/{quote(each['name'], safe='')}/subscriptions")
            for row in listing.own.rows(connection, project):
                yield {**row, "collection": collection}


def _named_type(name: str, **declared: Any) -> ResourceType:
    """Return a type whose resources have no id besides their name, and have subscriptions."""
    return ResourceType(
        name=name,
        all_projects=_SCOPED_LISTS,
        delete=_collection(f"/{name}s").delete,
        id="name",
        owner=SCOPED,
        why_no_show=_FRESH,
        properties="metadata",
        token=Token.PROJECT,
        after=("subscription",),
        **declared,
    )


SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    after=CONTROLLERS,
    options=OPTIONS,
    roles="any role on the project to be deleted with which its policy lets list and delete queues",
    types=(
        ResourceType(
            name="subscription",
            used_by=(),
            list=_subscriptions,
            all_projects=_SCOPED_LISTS,
            delete=_collection("/{row[collection]}/{row[source]}/subscriptions").delete,
            title="subscriber",
            owner=SCOPED,
            why_no_show=_FRESH,
            token=Token.PROJECT,
            source="GET, DELETE /v2/queues/NAME/subscriptions; zaqar transport/wsgi/v2_0/subscriptions.py, "
            "storage/redis/subscriptions.py",
            note="Deleted before its queue: a subscription stays after the delete of its queue, and then no call lists "
            "it. One whose queue a user has deleted ends with its time to live. So do, with Redis, subscriptions that "
            "Zaqar does not list because those before them have expired: a page of expired ones looks like the end of "
            "the list.",
        ),
        _named_type(
            "queue",
            used_by=(
                Use(
                    ("message.message",),
                    "takes the messages from those who hold a pre-signed URL",
                    unseen="Zaqar does not record to whom such a URL was given",
                ),
            ),
            list=_QUEUES.own,
            source="GET, DELETE /v2/queues; zaqar transport/wsgi/v2_0/queues.py, urls.py, messages.py, common/urls.py, "
            "storage/sqlalchemy/queues.py",
            note="Its messages are deleted with it, and its claims expire. In Redis two internal keys of a queue stay "
            "(rank_counter, claims). Zaqar answers 204 to every delete, also to one of a queue that does not exist: "
            "the list after the delete decides. A member may have created a pre-signed URL of a queue (policy "
            "queues:share). Until the URL expires, a post to it creates the queue again without a token. No lock of a "
            "project stops this. The URLs of all projects end when the operator sets another [signed_url] secret_key.",
        ),
        _named_type(
            "topic",
            used_by=(),
            list=_topics,
            available=_has_topics,
            source="GET, DELETE /v2/topics; zaqar transport/wsgi/v2_0/topic.py",
            note="Read in Zaqar's source, and never met in a test: with the management store of the tests Zaqar has no "
            "topics. See the option list_topics.",
        ),
    ),
)
