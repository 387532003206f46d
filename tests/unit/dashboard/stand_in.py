"""Stands in for Horizon, which the unit tests do not have: only what the pages import of it."""

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any


class HorizonException(Exception):
    """The base of Horizon's exceptions."""


class NotAuthenticated(HorizonException):
    """Horizon answers it with its login page."""


class ServiceCatalogException(HorizonException):
    """The catalog has no such endpoint."""


class Messages:
    """Keeps what the user is told of successes."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def success(self, _request: Any, text: str) -> None:
        """Keep the text."""
        self.said.append(text)


MESSAGES = Messages()


def _modules() -> dict[str, types.ModuleType]:
    exceptions = {each.__name__: each for each in (HorizonException, NotAuthenticated, ServiceCatalogException)}
    contents: dict[str, dict[str, Any]] = {
        "horizon": {"messages": MESSAGES, "tables": types.SimpleNamespace(LinkAction=object, BatchAction=object)},
        "horizon.base": {"NotRegistered": type("NotRegistered", (Exception,), {})},
        "horizon.exceptions": exceptions,
        "horizon.views": {"PageTitleMixin": type("PageTitleMixin", (), {})},
        "openstack_auth": {},
        "openstack_auth.policy": {"_get_enforcer": dict},
        "openstack_auth.utils": {"get_client_ip": lambda _: "192.0.2.1"},
        "openstack_dashboard": {},
        "openstack_dashboard.api": {},
        "openstack_dashboard.api.base": {"url_for": lambda *_: "https://cleanup.example.com"},
        "openstack_dashboard.api.keystone": {"tenant_get": None, "keystoneclient": None},
    }
    made = {}
    for name, values in contents.items():
        made[name] = types.ModuleType(name)
        vars(made[name]).update(values)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(made[parent], child, made[name])
    return made


@contextlib.contextmanager
def horizon() -> Iterator[None]:
    """Let the modules of the panels be imported within the block; other modules do not see the stand-in."""
    modules = _modules()
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
