"""Arguments of several commands: places and times."""

from __future__ import annotations

import argparse
import datetime
import re


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
