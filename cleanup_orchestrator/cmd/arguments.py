"""The arguments that name the configuration, for the commands with their own parser."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def parent() -> argparse.ArgumentParser:
    """Return the parent parser with ``--config-file`` and ``--config-dir``.

    A parser and each of its subparsers can have it, so that the options may stand anywhere in the command line.
    """
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--config-file",
        dest="configuration",
        type="--config-file={}".format,
        action="append",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help="configuration file, may be repeated (default: /etc/cleanup-orchestrator/cleanup-orchestrator.conf)",
    )
    common.add_argument(
        "--config-dir",
        dest="configuration",
        type="--config-dir={}".format,
        action="append",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help="folder with configuration files, may be repeated",
    )
    return common


def sources(argv: Sequence[str] | None = None) -> list[str]:
    """Return the configuration that a command line names, as arguments of oslo.config, in its order.

    The parser of the command cannot tell: the options after a subcommand replace those before it.

    :param argv: the command line, which the parser of the command has accepted; default: that of the process
    """
    given, _others = parent().parse_known_args(argv)
    return list(getattr(given, "configuration", ()))
