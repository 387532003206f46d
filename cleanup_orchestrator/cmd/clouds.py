"""Opens ``clouds.yaml`` for the commands that check a plugin or a service on a cloud."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1.adapter import Adapter
from openstack import exceptions as sdk_exceptions
from openstack.config import OpenStackConfig

from cleanup_orchestrator.cloud import assumptions
from cleanup_orchestrator.cloud.session import GuardedSession
from cleanup_orchestrator.cmd.schema import PROJECT

if TYPE_CHECKING:
    from openstack.connection import Connection

#: What is raised for a cloud that is not in the file, or whose Keystone issues no token.
ERRORS = (sdk_exceptions.SDKException, ka_exceptions.ClientException)


def config(make: Callable[..., GuardedSession], seconds: float) -> OpenStackConfig:
    """Return the clouds of ``clouds.yaml``, with guarded sessions.

    :param make: makes a session from the arguments of ``keystoneauth1.session.Session``
    :param seconds: the longest time of one call; ``api_timeout`` of a cloud can only shorten it
    :raises CleanupError: a library does not call what the promises of the sessions rest on
    """
    assumptions.check()

    def session(**kwargs: Any) -> GuardedSession:
        return make(**{**kwargs, "timeout": min(kwargs.get("timeout") or seconds, seconds)})

    return OpenStackConfig(session_constructor=session, app_name=PROJECT)


def identity(connection: Connection) -> Adapter:
    """Return an adapter for Keystone in the region and with the interface of a cloud. It raises for an error status."""
    config = connection.config
    return Adapter(
        connection.session,
        service_type="identity",
        interface=config.get_interface("identity"),
        region_name=config.get_region_name("identity"),
        version="3",
        raise_exc=True,
    )
