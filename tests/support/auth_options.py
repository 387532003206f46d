"""Removes the options of users from the configuration of the process.

keystoneauth registers them in ``cfg.CONF`` once ``auth_type`` is set, and a test process has that once. Some are
required: from then on a configuration without that section is refused. Some differ between two types, and oslo.config
raises DuplicateOptError.
"""

from __future__ import annotations

import functools

from keystoneauth1 import loading
from oslo_config import cfg


@functools.cache
def _names() -> frozenset[str]:
    """Return the names of the options that the authentication plugins of keystoneauth register."""
    loaders = loading.get_available_plugin_loaders().values()
    return frozenset(option.dest for loader in loaders for option in loader.get_options())


def forget(*groups: str) -> None:
    """Unregister the options of users in these groups; a group that does not exist is left out."""
    cfg.CONF.reset()
    for name in groups:
        group = cfg.CONF._groups.get(name)
        for known in list(group._opts.values()) if group else ():
            if known["opt"].dest in _names():
                cfg.CONF.unregister_opt(known["opt"], name)
