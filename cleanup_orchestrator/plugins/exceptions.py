"""The exceptions of openstacksdk, which is imported when one of them is used first.

A plugin is loaded by processes that make no call with openstacksdk, too, such as the API.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Return an attribute of ``openstack.exceptions``."""
    from openstack import exceptions

    return getattr(exceptions, name)
