"""The exceptions of openstacksdk, which is imported when one of them is used first.

A plugin is loaded by processes that make no call with openstacksdk, too, such as the API.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Return an attribute of ``openstack.exceptions``."""
    from openstack import exceptions

    return getattr(exceptions, name)


def failure(status: int, message: str = "Error") -> Exception:
    """Return the exception that openstacksdk raises for a HTTP status.

    A plugin raises it where the service says the same in another way, such as a list without the resource. The
    constructors of openstacksdk take the status from an answer only.
    """
    from openstack import exceptions

    kinds = {403: exceptions.ForbiddenException, 404: exceptions.NotFoundException}
    made: Any = kinds.get(status, exceptions.HttpException)(message)
    made.status_code = status
    failed: Exception = made
    return failed
