"""Implements ``cleanup-orchestrator-manage report``: checks reports, and prints keys and the heads of journals."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from oslo_config import cfg

from cleanup_orchestrator.cmd.schema import ManageError, connect, require
from cleanup_orchestrator.core.texts import printable
from cleanup_orchestrator.evidence import options, signing, verify
from cleanup_orchestrator.store import journal

EXAMPLE = "report verify report.json --keys keys.json"
#: Exit codes besides 0, 1 (something is wrong, or an error) and 2 (a wrong command line).
UNSIGNED, NO_PROOF = 3, 4


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``report verify``."""
    parser.add_argument("file", metavar="FILE", help="the report: JSON, as the API or 'openstack' wrote it")
    parser.add_argument(
        "--keys", metavar="JWKS", help="file with the trusted public keys; without it the signature is not checked"
    )


def run_verify(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    """Check a report, and print what it proves.

    :raises ManageError: something in the report is wrong, or a file cannot be read
    """
    try:
        keys = signing.read_keys(args.keys) if args.keys else None
        found = verify.verified(verify.parsed(Path(args.file).read_bytes()), keys)
    except OSError as error:
        raise ManageError(f"{args.file} cannot be read: {error.strerror or error}") from None
    except (verify.ReportWrong, signing.KeyUnusable) as error:
        raise ManageError(printable(str(error))) from None
    report, chain = found.report, found.report["journal"]
    d = report["deletion"]
    print(printable(f"deletion {d['id']} of project {d['project_name']} ({d['project_id']}): {report['verdict']}"))
    print(f"journal: {chain['length']} lines lead to digest {chain['digest']}")
    if chain["withheld"]:
        print(f"journal: {chain['withheld']} lines are not all there, and only their order is checked")
    if found.kid:
        print(f"signature: by key {found.kid}")
        return 0 if found.proven else NO_PROOF
    print(
        "signature: not checked, because --keys is missing" if found.signed else "signature: none, anyone can write it"
    )
    return UNSIGNED


def run_keys(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    """Print the public keys for auditors as a JWKS document.

    :raises ManageError: no key is configured, or a file cannot be used
    """
    for group, opts in options.OPTS.items():
        conf.register_opts(opts, group=group)
    try:
        keys = options.published(conf)
    except signing.KeyUnusable as error:
        raise ManageError(str(error)) from None
    if not keys:
        raise ManageError("no key is configured: set [report] signing_key_file")
    print(json.dumps(signing.jwks(keys), indent=1))
    return 0


def run_head(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    """Print the head of the journal of a deletion, also of one that was purged.

    :raises ManageError: the database has none
    """
    require(conf)
    with connect(conf.database.connection) as connection:
        found = journal.head_of(connection, args.deletion)
    if found is None:
        raise ManageError(f"the database has no journal of deletion {printable(args.deletion)}, and no head of one")
    head, purged_at = found
    print(f"{head.length} lines, digest {head.digest}" + (f", purged at {purged_at:%Y-%m-%d}" if purged_at else ""))
    return 0
