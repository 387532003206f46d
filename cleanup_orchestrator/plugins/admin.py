"""Whether a service takes us for an admin, asked before a list of it is believed.

Several services answer a list to anybody, with a success: who is no admin there is shown his own, and the project that
he asked for looks empty. A policy of the operator's own is enough for that, whatever Keystone says of our roles. So
such a service is asked first for something that it gives to admins only: a refusal of that is its answer to the list.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.plugins.base import ProjectDefinition, Rest, fill

if TYPE_CHECKING:
    from openstack.connection import Connection

SECONDS = 30.0  #: that an answer holds: one round of sweeps asks dozens of times

#: When it was answered (monotonic), by question (what is told of one project says nothing of another), endpoint and
#: user: each step has a connection of its own.
_proven: dict[tuple[str, str, str], float] = {}
_lock = threading.Lock()


def prove(question: Rest, connection: Connection, project: ProjectDefinition) -> None:
    """Make sure that a service takes us for an admin.

    :param question: what it answers to admins only; one object, or rows where it has a ``key``
    :raises openstack.exceptions.ForbiddenException: it does not
    """
    # Not the client's own get_endpoint: that of identity reads an endpoint of the catalog by its id.
    endpoint = Adapter.get_endpoint(question.client(connection))
    asked = f"{fill(question.path, project)} {fill(question.query, project)}"
    who = (asked, str(endpoint or ""), str(connection.session.get_user_id() or ""))
    with _lock:
        for old in [each for each, at in _proven.items() if time.monotonic() - at >= SECONDS]:
            del _proven[old]
        if who in _proven:
            return
    if question.key:
        for _ in question.rows(connection, project):
            pass
    else:
        question.call(connection, project)
    with _lock:
        _proven[who] = time.monotonic()
