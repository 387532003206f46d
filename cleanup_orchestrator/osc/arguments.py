"""Arguments of several commands: places and times."""

from __future__ import annotations

import argparse
import datetime
import re
from typing import Any

from cleanup_orchestrator.osc import common


def given(text: str) -> str:
    """Return an argparse value that is not empty. An unset variable of a script must not widen what is deleted."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the value is empty")
    return text


def utc(text: str) -> str:
    """Return an argparse value for a time in UTC in the format of the API; a date is its beginning."""
    moment = f"{text}T00:00:00Z" if re.fullmatch("[0-9-]{10}", text) else text
    try:
        if moment != datetime.datetime.fromisoformat(moment.removesuffix("Z")).isoformat() + "Z":
            raise ValueError(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2027-01-31T00:00:00Z") from exc
    return moment


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add --region, --service and --type."""
    parser.add_argument("--region", metavar="<region>", help="Only resources in this region")
    parser.add_argument(
        "--service", metavar="<type>", help="Only resources of this service, such as 'network' or 'neutron'"
    )
    parser.add_argument(
        "--type", metavar="<type>", help="Only resources of this type, such as 'port' or 'network.port'"
    )


def add_until(parser: Any) -> None:
    """Add --days and --expires-at to a group that allows one of them."""
    parser.add_argument("--days", metavar="<days>", type=common.positive(float), help="Number of days from now")
    parser.add_argument("--expires-at", metavar="<time>", help="End time in UTC, YYYY-MM-DDTHH:MM:SSZ")


def until(parsed_args: argparse.Namespace) -> str | None:
    """Return the time of --days or --expires-at in the format of the API."""
    if not parsed_args.days:
        expires_at: str | None = parsed_args.expires_at
        return expires_at
    try:
        moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=parsed_args.days)
    except OverflowError as exc:
        raise common.command_error(f"{parsed_args.days:g} days are too many: give fewer --days", exc) from exc
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
