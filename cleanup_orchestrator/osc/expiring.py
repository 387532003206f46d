"""Common parts of the commands for liens and waivers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib.command import command

from cleanup_orchestrator.osc import cells, common
from cleanup_orchestrator.osc.common import Table
from cleanup_orchestrator.sdk import one_line
from cleanup_orchestrator.shapes.base import Shape


class List(common.Lister):
    """A command that lists liens or waivers."""

    noun: ClassVar[str]
    ended: ClassVar[str]  #: the state of one that a user has ended
    shape: ClassVar[type[Shape]]

    def add_listing(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that select the records."""
        state = parser.add_mutually_exclusive_group()
        text = f"Only {self.noun}s that have expired or were {self.ended}"
        state.add_argument("--ended", action="store_true", help=text)
        state.add_argument("--all", action="store_true", help=f"Also {self.noun}s that have ended")
        common.add_long(parser)
        common.add_limit(parser, f"{self.noun}s")
        parser.add_argument("--marker", metavar=f"<{self.noun}>", help=f"List the {self.noun}s after this one (ID)")

    def rows(
        self, read: Callable[..., Iterable[Mapping[str, Any]]], parsed_args: argparse.Namespace, **filters: Any
    ) -> Table:
        """Return one row for each record."""
        state = "ended" if parsed_args.ended else "all" if parsed_args.all else None
        records = read(limit=parsed_args.limit, state=state, marker=parsed_args.marker, **filters)
        more = () if state is None else ("state",)
        return cells.of_list(self.shape, parsed_args, records, (*self.shape.columns, *more))


class Show(common.ShowOne):
    """A command that shows a lien or a waiver."""

    noun: ClassVar[str]  #: also in the name of the client's method
    shape: ClassVar[type[Shape]]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id", metavar=f"<{self.noun}>", help=f"ID of the {self.noun}")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return the fields of the record."""
        return cells.details(self.shape, getattr(self.client, f"get_{self.noun}")(parsed_args.id))


class Delete(common.Cleanup, command.Command):
    """A command that ends liens or waivers."""

    noun: ClassVar[str]  #: also in the name of the client's method
    end: ClassVar[str]  #: the verb of the command, such as ``remove``
    ended: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("ids", metavar=f"<{self.noun}>", nargs="+", help=f"ID of each {self.noun}")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """End each record; continue after an error.

        :raises osc_lib.exceptions.CommandError: if one or more records were not ended
        """
        failed = 0
        for id_ in parsed_args.ids:
            try:
                getattr(self.client, f"delete_{self.noun}")(id_)
            except sdk_exceptions.SDKException as exc:
                failed += 1
                self.log.error(
                    "Cannot %s %s '%s': %s", self.end, self.noun, one_line(id_), common.explain(exc, self.find_id)
                )
        if failed:
            raise exceptions.CommandError(f"{failed} of {len(parsed_args.ids)} {self.noun}s were not {self.ended}")
