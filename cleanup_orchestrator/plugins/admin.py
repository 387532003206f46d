"""Checks that a service treats the orchestrator as an admin.

Several services answer a list to every caller, with a success. A caller who is not an admin there sees only its own
project, so that the project under deletion would look empty. A policy of the operator can cause this, whatever roles
Keystone assigns. So such a service is first asked for something that it gives to admins only. If it refuses that, the
list counts as refused.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.plugins.base import ProjectDefinition, Rest, fill

if TYPE_CHECKING:
    from openstack.connection import Connection

SECONDS = 30.0  #: how long an answer is valid; one round of sweeps asks dozens of times

#: Time of the answer (monotonic), by call (with the project that it names), endpoint and user. Not by connection: each
#: step has a new one.
_proven: dict[tuple[str, str, str], float] = {}
_lock = threading.Lock()


def prove(question: Rest, connection: Connection, project: ProjectDefinition) -> None:
    """Check that a service treats the orchestrator as an admin.

    :param question: a call that the service answers to admins only; for one object, or for rows where it has a ``key``
    :raises openstack.exceptions.ForbiddenException: when it does not
    """
    # The client's ``get_endpoint`` is not used: that of identity reads an endpoint of the catalog by its id.
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
