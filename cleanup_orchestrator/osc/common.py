"""Common parts of the commands: help, name lookup, one-line errors, columns."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from cliff import columns
from cliff.formatters.table import TableFormatter
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib.command import command

from cleanup_orchestrator.core.texts import printable
from cleanup_orchestrator.osc import screen, tables, usage, words
from cleanup_orchestrator.sdk import ApiError, LoginLost, Proxy, one_line

#: What a command returns: column names, and rows or values.
Table = tuple[tuple[str, ...], Iterable[Any]]

SHOW = "openstack project deletion show {id}"
LEFTOVERS = "openstack project deletion leftovers {id}"
FOLLOW = "openstack project deletion events --follow {id}"
RETRY = "openstack project deletion retry {id}"
CANCEL = "openstack project deletion cancel {id}"
PLAN = "openstack project deletion plan show {id}"
LIST = "openstack project deletion list"
#: How to find the id of a deletion.
FIND_DELETION = f"Find its id with: {LIST} --project <project>"


def keep_examples(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Keep the indented lines of the epilog in the help.

    argparse would join the examples into one paragraph.
    """
    base: Any = parser.formatter_class

    class ExamplesFormatter(base):
        def _fill_text(self, text: str, width: int, indent: str) -> str:
            blocks = []
            for block in text.strip("\n").split("\n\n"):
                if any(line.startswith("  ") for line in block.splitlines()):
                    blocks.append(textwrap.indent(block, indent))
                else:
                    blocks.append(super()._fill_text(block, width, indent))
            return "\n\n".join(blocks)

    parser.formatter_class = ExamplesFormatter
    return parser


def explain(exc: BaseException, find: str = "") -> str:
    """Return an error as one line that ends with what to do, if that is known.

    :param find: a sentence that says how to find the id, for the error about an unknown one
    """
    if not isinstance(exc, ApiError):
        text = one_line(exc) or type(exc).__name__
        if isinstance(exc, LoginLost):
            text += "; if you are logged in to the project that is being deleted, log in to another one"
        return text
    text = words.spoken(exc)
    if exc.deletion_id:
        return f"{text}. See it with: {SHOW.format(id=exc.deletion_id)}"
    if exc.code:
        # The errors of the API say what to do, except where to find an id.
        return f"{text}. {find}" if find and exc.status_code == 404 else text
    if exc.status_code == 401:
        return f"{text}: the token is not valid, log in again"
    if exc.status_code == 403:
        return f"{text}: use the admin role, or the manager role on the project's domain"
    if exc.status_code == 404:
        return f"{text}: this is not the project-cleanup API, check its endpoint in the catalog"
    if exc.status_code == 503:
        return f"{text}: the project-cleanup API or Keystone is down, try again later"
    return text


def command_error(text: str, exc: BaseException | None = None) -> exceptions.CommandError:
    """Return an exception that osc prints as one line, with exit code 1."""
    error = exceptions.CommandError(text)
    error.__cause__ = exc
    return error


class Cleanup(command.Command):
    """A command that calls the project-cleanup API."""

    app: Any
    code = 0  #: exit code of a command that raised no error
    find_id: ClassVar[str] = ""  #: how to find the id that the command takes; see :func:`explain`
    _epilog: str

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Remove the indentation of the source from the epilog.

        cliff appends a paragraph without indentation.
        """
        super().__init_subclass__(**kwargs)
        if "_epilog" in vars(cls):
            cls._epilog = inspect.cleandoc(cls._epilog)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser. Its epilog has examples, and it takes no beginning of an option for the option."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.allow_abbrev = False
        return keep_examples(parser)

    @property
    def client(self) -> Proxy:
        """The client of the API."""
        client: Proxy = self.app.client_manager.project_cleanup
        return client

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; print an error as one line."""
        try:
            self.code = 0
            code: int = super().run(parsed_args)
            return code or self.code
        except (sdk_exceptions.SDKException, usage.UsageError) as exc:
            if usage.exit_code(exc) == usage.USAGE:
                return self.refuse(exc)
            raise command_error(explain(exc, self.find_id), exc) from exc

    def refuse(self, exc: BaseException) -> int:
        """Print an error about the command line; return the exit code."""
        self.log.error("%s", explain(exc, self.find_id))
        self.log.debug("", exc_info=exc)
        return usage.USAGE


class Lister(Cleanup, command.Lister):
    """A command that lists."""

    formatter: Any

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Write the table without terminal control characters.

        All rows are read before: a list that breaks off is not shown, and cliff needs them again if it cannot sort.
        """
        if isinstance(self.formatter, TableFormatter):
            self.formatter = tables.OneLine()
        rows = list(data if parsed_args.formatter in _ESCAPING else map(_shown, data))
        code: int = super().produce_output(parsed_args, column_names, rows)
        return code


class ShowOne(Cleanup, command.ShowOne):
    """A command that shows one object."""

    formatter: Any

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Write the object without terminal control characters."""
        row = data if parsed_args.formatter in _ESCAPING else _shown(data)
        is_table = isinstance(self.formatter, TableFormatter)
        after = [line for value in row for line in getattr(value, "after", ())] if is_table else []
        if is_table:
            self.formatter = tables.Details()
        if parsed_args.formatter == "shell":
            row = tuple(_for_a_shell(value) for value in row)
        code: int = super().produce_output(parsed_args, column_names, row)
        screen.Screen(sys.stderr).say(after)
        return code


#: Formats that escape control characters.
_ESCAPING = frozenset({"json", "yaml"})


def _shown(row: Iterable[Any]) -> tuple[Any, ...]:
    """Return a row with printable texts. Users choose names."""
    return tuple(printable(value) if isinstance(value, str) else value for value in row)


def _for_a_shell(value: Any) -> Any:
    """Return a value that is safe in a double-quoted shell string.

    cliff writes the double quotes, and escapes only these.
    """
    if isinstance(value, columns.FormattableColumn):
        value = str(value.machine_readable())
    return re.sub(r"([\\$`])", r"\\\1", value) if isinstance(value, str) else value


def positive(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return an argparse type for numbers above zero."""

    def number(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = 0
        # "<= 0" would accept nan
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
        return value

    return number


def add_limit(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --limit."""
    parser.add_argument(
        "--limit",
        metavar="<limit>",
        type=positive(int),
        help=f"Maximum number of {what} to list (default: all)",
    )


def add_long(parser: argparse.ArgumentParser) -> None:
    """Add --long."""
    parser.add_argument("--long", action="store_true", help="List all columns, and shorten no text")


def find_domain(identity: Any, name_or_id: str) -> str:
    """Return the id of a domain.

    If the user may not look up domains, the argument counts as an id, as in the stock commands.
    """
    try:
        return str(identity.find_domain(name_or_id, ignore_missing=False).id)
    except sdk_exceptions.ForbiddenException:
        return name_or_id
    except sdk_exceptions.NotFoundException as exc:
        raise command_error(f"no domain with the name or id '{one_line(name_or_id)}'", exc) from exc


def find_project(identity: Any, name_or_id: str, domain: str | None) -> str:
    """Return the id of a project, found as by the stock ``project delete``.

    :raises osc_lib.exceptions.CommandError: if no project, or more than one, has the name
    """
    scope = {}
    if domain:
        scope["domain_id"] = find_domain(identity, domain)
    where = f" in the domain '{one_line(domain)}'" if domain else ""
    try:
        return str(identity.find_project(name_or_id, ignore_missing=False, **scope).id)
    except sdk_exceptions.ForbiddenException:
        return name_or_id
    except sdk_exceptions.NotFoundException as exc:
        raise command_error(f"no project with the name or id '{one_line(name_or_id)}'{where}", exc) from exc
    except sdk_exceptions.DuplicateResource as exc:
        raise command_error(
            f"more than one project has the name '{one_line(name_or_id)}': give its id, or --domain", exc
        ) from exc


def project_id(app: Any, parsed_args: argparse.Namespace) -> str | None:
    """Return the id of the named project.

    A project that no longer exists can only be named by its id.
    """
    name = parsed_args.project
    if not name:
        return None
    try:
        return find_project(app.client_manager.sdk_connection.identity, name, parsed_args.project_domain)
    except exceptions.CommandError as exc:
        gone = isinstance(exc.__cause__, sdk_exceptions.NotFoundException)
        if gone and re.fullmatch(r"[0-9a-fA-F]{32}|[0-9a-fA-F-]{36}", name):
            return str(name)
        raise


def add_project_domain(parser: argparse.ArgumentParser) -> None:
    """Add --project-domain."""
    parser.add_argument("--project-domain", metavar="<domain>", help="Domain that the project is in (name or ID)")


def add_project(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --project and --project-domain."""
    parser.add_argument("--project", metavar="<project>", help=what)
    add_project_domain(parser)


def condition(deletion: Mapping[str, Any], name: str, status: bool = True) -> Mapping[str, Any]:
    """Return a condition of a deletion if it is on record with this status, or else an empty one."""
    conditions = deletion.get("conditions") or ()
    return next((c for c in conditions if c.get("type") == name and bool(c.get("status")) is status), {})


def is_true(deletion: Mapping[str, Any], name: str) -> bool:
    """Return whether a condition of a deletion is true."""
    return bool(condition(deletion, name))


def type_name(row: Mapping[str, Any]) -> str:
    """Return ``region service.type`` of a count or blocker; leave out missing parts."""
    name = ".".join(one_line(row[k]) for k in ("service", "type") if row.get(k))
    return " ".join(part for part in (one_line(row.get("region") or ""), name) if part)


def label(deletion: Mapping[str, Any]) -> str:
    """Return the name of the project of a deletion, or its id if the name is not known."""
    return one_line(deletion.get("project_name") or deletion.get("project_id") or deletion.get("id"))


def reference(row: Mapping[str, Any]) -> str:
    """Return a resource that blocks a delete, and whose it is, as one phrase."""
    text = " ".join(one_line(row[k]) for k in ("type", "id") if row.get(k))
    text += f" ({one_line(row['name'])})" if row.get("name") else ""
    if not (row.get("project_id") or row.get("project_name")):
        return text
    if not row.get("project_id"):
        return f"{text} of another project"
    id_ = one_line(row["project_id"])
    return f"{text} of project " + (f"{one_line(row['project_name'])} ({id_})" if row.get("project_name") else id_)


def progress_text(progress: Mapping[str, Any]) -> str:
    """Return the counts of a deletion as one phrase."""
    parts = [f"{word} {progress.get(word) or 0}" for word in ("found", "deleted", "remaining")]
    parts += [f"{word} {progress[word]}" for word in ("abandoned", "kept", "unknown") if progress.get(word)]
    if progress.get("steps"):
        parts.append(f"steps {progress.get('steps_done') or 0}/{progress['steps']}")
    return ", ".join(parts)


def blocker_lines(blockers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return lines for each blocker: its message, its resources, and its remedy with the commands.

    Blockers with the same remedy follow each other, and the remedy is said once.
    """
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for blocker in blockers:
        alike.setdefault(one_line(blocker.get("remedy") or ""), []).append(blocker)
    lines = []
    for remedy, group in alike.items():
        for blocker in group:
            lines += _blocker(blocker)
        if remedy:
            lines.append(f"    remedy: {remedy}")
        commands = dict.fromkeys(one_line(each) for blocker in group for each in blocker.get("commands") or ())
        lines += [f"        {screen.unbroken(each)}" for each in commands]
    return lines


def _blocker(blocker: Mapping[str, Any]) -> list[str]:
    """Return lines for what a blocker is, and which resources it concerns."""
    reason = one_line(blocker.get("reason") or "")
    message = one_line(blocker.get("message") or "") or reason
    text = f"{type_name(blocker) or 'deletion'}: {message}"
    lines = [f"{text} ({reason})" if reason and reason != message else text]
    if named := blocker.get("resources"):
        more = (blocker.get("number") or 0) - len(named)
        texts = [resource(each) for each in named] + ([f"and {more} more"] if more > 0 else [])
        # One line each: a name can contain whatever would separate it from the next one.
        lines += [f"    {'' if n else 'concerns:':9} {text}" for n, text in enumerate(texts)]
    if blocker.get("blocked_by"):
        lines.append("    blocked by: " + "; ".join(reference(each) for each in blocker["blocked_by"]))
    return lines


def resource(row: Mapping[str, Any]) -> str:
    """Return the name and the id of a resource."""
    id_ = one_line(row.get("id") or "")
    return f"{one_line(row['name'])} ({id_})" if row.get("name") else id_
