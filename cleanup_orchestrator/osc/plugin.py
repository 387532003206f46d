"""The entry point of the ``openstack`` plugin.

Every ``openstack`` command imports this module. Therefore it imports the client only when a command uses it.
"""

from __future__ import annotations

import argparse
from typing import Any

from osc_lib import utils

API_NAME = "project_cleanup"
API_VERSION_OPTION = "os_project_cleanup_api_version"
# Older releases of openstackclient need a dict. The values are not used.
API_VERSIONS = {"1": "", "1.0": ""}
DEFAULT_API_VERSION = "1"


def make_client(instance: Any) -> Any:
    """Return the client of the project-cleanup API for osc's client manager."""
    from cleanup_orchestrator.sdk import proxy

    return proxy.from_connection(instance.sdk_connection)


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the global options of the plugin."""
    parser.add_argument(
        "--os-project-cleanup-api-version",
        metavar="<project-cleanup-api-version>",
        default=utils.env("OS_PROJECT_CLEANUP_API_VERSION"),
        help=f"project-cleanup API version, default={DEFAULT_API_VERSION} (Env: OS_PROJECT_CLEANUP_API_VERSION)",
    )
    return parser
