"""The arguments that name the configuration, for the commands with their own parser."""

from __future__ import annotations

import argparse


def parent() -> argparse.ArgumentParser:
    """Return the parent parser with ``--config-file`` and ``--config-dir``.

    A parser and each of its subparsers can have it, so that the options may stand anywhere in the command line.
    """
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--config-file",
        action="append",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help="configuration file, may be repeated (default: /etc/cleanup-orchestrator/cleanup-orchestrator.conf)",
    )
    common.add_argument(
        "--config-dir",
        action="append",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help="folder with configuration files, may be repeated",
    )
    return common


def sources(args: argparse.Namespace) -> list[str]:
    """Return the configuration that the arguments name, as arguments of oslo.config."""
    files = [f"--config-file={path}" for path in getattr(args, "config_file", ())]
    return [*files, *(f"--config-dir={path}" for path in getattr(args, "config_dir", ()))]
