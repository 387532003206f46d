"""The cells of tables: a short text for people, the value for programs, and which cell a field has."""

from __future__ import annotations

import argparse
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cliff import columns
from osc_lib.cli import format_columns

from cleanup_orchestrator import shapes
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.texts import printable
from cleanup_orchestrator.core.words import Outcome
from cleanup_orchestrator.osc import common, selection
from cleanup_orchestrator.osc.common import Table
from cleanup_orchestrator.osc.screen import unbroken
from cleanup_orchestrator.sdk import one_line
from cleanup_orchestrator.sdk.text import size_text
from cleanup_orchestrator.shapes.base import Shape, TypedField, field_at


class Fields(format_columns.DictColumn):
    """An object: one printable line in a table, the object in JSON."""

    def human_readable(self) -> str:
        """Return the line."""
        return printable(super().human_readable())


class Words(format_columns.ListColumn):
    """A list of texts: one printable line in a table, the texts in JSON."""

    def human_readable(self) -> str:
        """Return the line."""
        return printable(super().human_readable())


class Rows(format_columns.ListDictColumn):
    """A list of objects: a line for each in a table, the objects in JSON."""

    def line(self, row: Mapping[str, Any]) -> str:
        """Return the line for one object."""
        raise NotImplementedError

    def human_readable(self) -> str:
        """Return the lines."""
        return "\n".join(self.line(row) for row in self._value or ())


class Conditions(Rows):
    """Conditions of a deletion. A table has those that are true, and that a plan is not complete."""

    def human_readable(self) -> str:
        """Return a line for each of these conditions."""
        shown = [row for row in self._value or () if row.get("status") or row.get("type") == "plan_complete"]
        return "\n".join(self.line(row) for row in shown)

    def line(self, row: Mapping[str, Any]) -> str:
        """Return one condition, its reason and its message."""
        state = f"{one_line(row.get('type'))}: {'yes' if row.get('status') else 'no'}"
        why = ", ".join(one_line(row[k]) for k in ("reason", "message") if row.get(k))
        return f"{state} ({why})" if why else state


class Blockers(Rows):
    """Blockers of a deletion. Their commands follow the table, in which long lines are broken."""

    def human_readable(self) -> str:
        """Return the lines of the blockers, without commands."""
        return "\n".join(common.blocker_lines([{**row, "commands": ()} for row in self._value or ()]))

    @property
    def after(self) -> list[str]:
        """The lines for after the table."""
        commands = dict.fromkeys(one_line(each) for row in self._value or () for each in row.get("commands") or ())
        head = ["Commands that clear blockers, if that is what you want:"] if commands else []
        return [*head, *(f"  {unbroken(each)}" for each in commands)]


class Children(Rows):
    """Deletions of the projects below, for which a deletion waits."""

    def line(self, row: Mapping[str, Any]) -> str:
        """Return one project, the status of its deletion, and whether it needs a person."""
        words = [one_line(each) for each in (row.get("status"), *(row.get("attention") or ())) if each]
        return f"{one_line(row.get('project_name') or row.get('project_id') or '')}: {', '.join(words)}"


class Counts(Rows):
    """Counts of each region and type.

    A table only gives the number of types that are empty or not listed yet.
    """

    def human_readable(self) -> str:
        """Return a line for each type that is not empty or is unknown."""
        lines = []
        empty = later = 0
        for row in self._value or ():
            waived = row.get("reason") == Reason.WAIVED
            if row.get("found") or row.get("deleted") or row.get("outcome") not in ("clear", "") or waived:
                lines.append(self.line(row))
            elif row["outcome"]:
                empty += 1
            else:
                later += 1
        lines += [f"{empty} other: nothing found"] if empty else []
        lines += [f"{later} other: not listed in this attempt"] if later else []
        return "\n".join(lines)

    def line(self, row: Mapping[str, Any]) -> str:
        """Return the counts of one type in one region."""
        numbers = [f"{word} {row.get(word) or 0}" for word in ("found", "deleted", "remaining")]
        outcome = one_line(row.get("outcome") or row.get("state") or "")
        if outcome == Outcome.LEFTOVERS and not row.get("deleted") and row.get("found") == row.get("remaining"):
            numbers, outcome = [f"{row['remaining']} left"], ""
        numbers += [f"{word} {row[word]}" for word in ("abandoned", "kept", "unselected") if row.get(word)]
        waived = row.get("reason") == Reason.WAIVED
        if (outcome == Outcome.UNKNOWN or waived) and not (row.get("found") or row.get("deleted")):
            # Zeros would mean that the type is empty.
            numbers = []
        if waived:
            outcome = str(Reason.WAIVED)
        why = one_line(row.get("message") or row.get("reason") or "")
        text = "; ".join(part for part in (", ".join(numbers), outcome) if part)
        return f"{common.type_name(row)}: {text}" + (f" ({why})" if why else "")


class Liens(Rows):
    """Liens on a deletion's project."""

    def line(self, row: Mapping[str, Any]) -> str:
        """Return one lien: its origin, reason and end."""
        end = f"until {one_line(row['expires_at'])}" if row.get("expires_at") else "until it is removed"
        why = one_line(row["reason"]) if "reason" in row else "only an admin can read the reason"
        return f"{one_line(row.get('origin') or '')} {end}: {why} ({one_line(row.get('id'))})"


class Waivers(Rows):
    """Waivers that a deletion relies on."""

    def line(self, row: Mapping[str, Any]) -> str:
        """Return one waiver: the skipped services, the user, the reason and the end."""
        entries = [
            " ".join(one_line(e[k]) for k in ("region", "service") if e.get(k)) for e in row.get("not_listed") or ()
        ]
        who = one_line(row.get("user_name") or row.get("user_id") or "an admin")
        why = one_line(row["reason"]) if "reason" in row else "only an admin can read the reason"
        end, id_ = one_line(row.get("expires_at")), one_line(row.get("id"))
        return f"skipped: {', '.join(entries)}; {who} until {end}: {why} ({id_})"


class Forced(format_columns.DictColumn):
    """The force of a deletion."""

    def human_readable(self) -> str:
        """Return the user, the reason, and what was abandoned."""
        row = self._value
        who = one_line(row.get("user_name") or row.get("user_id") or "")
        lines = [f"by {who} at {one_line(row.get('at'))}: {one_line(row.get('reason') or '')}"]
        lines.append(f"{row.get('abandoned') or 0} abandoned")
        lines += [f"abandoned unseen: {common.type_name(each)}" for each in row.get("unseen") or ()]
        return "\n".join(lines)


class Approvals(Rows):
    """Approvals of a deletion that exceeded a limit."""

    def line(self, row: Mapping[str, Any]) -> str:
        """Return one approval: the user, the time, the limit and the reason."""
        who = one_line(row.get("user_name") or row.get("user_id") or "")
        count = f", {row['resources']} resources" if row.get("resources") else ""
        why = one_line(row.get("reason") or "")
        return f"{who} at {one_line(row.get('at'))} ({one_line(row.get('needed'))}{count}): {why}"


class Grants(Rows):
    """Role assignments that the drain removed, and that a cancel restores."""

    def line(self, row: Mapping[str, Any]) -> str:
        """Return one role assignment, by ids."""
        return " ".join(
            one_line(part) for part in ("role", row.get("role_id"), "of", row.get("actor"), row.get("actor_id"))
        )


class Progress(format_columns.DictColumn):
    """The progress of a deletion."""

    def human_readable(self) -> str:
        """Return the counts as one phrase."""
        return common.progress_text(self._value or {})


class References(Rows):
    """Resources that block the deletion of a leftover."""

    def line(self, row: Mapping[str, Any]) -> str:
        """Return one reference."""
        return common.reference(row)


class Numbers(Rows):
    """Counts by type."""

    def line(self, row: Mapping[str, Any]) -> str:
        """Return one type and its count."""
        return f"{one_line(row.get('type'))}: {row.get('count')}"


class NotCovered(Rows):
    """Types that a scan does not cover."""

    def line(self, row: Mapping[str, Any]) -> str:
        """Return one type and the reason."""
        return f"{common.type_name(row)}: {one_line(row.get('reason'))}"


class Coverage(Rows):
    """Types that a scan covers; a table only counts those without orphans."""

    def human_readable(self) -> str:
        """Return a line for each type with orphans, or with an unknown result."""
        rows = list(self._value or ())
        telling = [row for row in rows if row.get("orphans") or row.get("undecided") or row.get("outcome") == "unknown"]
        lines = [self.line(row) for row in telling]
        return "\n".join([*lines, f"{len(rows) - len(telling)} other types"])

    def line(self, row: Mapping[str, Any]) -> str:
        """Return the counts of one type in one region."""
        numbers = ", ".join(f"{word} {row.get(word) or 0}" for word in ("listed", "candidates", "orphans"))
        why = one_line(row.get("message") or row.get("reason") or "")
        result = one_line(row.get("outcome") or row.get("state"))
        return f"{common.type_name(row)}: {numbers}, {result}" + (f" ({why})" if why else "")


class Types(Rows):
    """The types of a plan; a table leaves out empty types."""

    def human_readable(self) -> str:
        """Return a line for each type that is not empty or is unknown."""
        rows = self._value or ()
        shown = [row for row in rows if not row.get("known") or any(row.get(k) for k in ("delete", "keep", "protect"))]
        other = len(rows) - len(shown)
        return "\n".join([*map(self.line, shown), *([f"{other} other: nothing found"] if other else [])])

    def line(self, row: Mapping[str, Any]) -> str:
        """Return the counts of one type in one region."""
        name = common.type_name(row)
        if row.get("waived"):
            return f"{name}: waived ({one_line(row.get('message') or '')})"
        if not row.get("known"):
            return f"{name}: not known ({one_line(row.get('message') or row.get('reason') or '')})"
        numbers = {word: f"{word} {row[word]}" for word in ("delete", "keep", "protect") if row.get(word)}
        if "delete" in numbers and (size := _size(row.get("size"), row.get("objects"))):
            numbers["delete"] += f" ({size})"
        return f"{name}: " + ", ".join(numbers.values())


class Order(format_columns.ListColumn):
    """The order of a plan: a line for each level in a table, the lists in JSON."""

    def human_readable(self) -> str:
        """Return the types of each level."""
        return "\n".join(", ".join(one_line(name) for name in level) for level in self._value or ())


class Selected(format_columns.DictColumn):
    """The selection of a deletion: words in a table, the criteria in JSON."""

    def human_readable(self) -> str:
        """Return the words."""
        return selection.text(self._value)


class Size(columns.FormattableColumn):
    """The size of a resource in bytes, or ``None``. Unknown sizes are sorted before the others."""

    def __init__(self, value: int | None, objects: int | None = None) -> None:
        """Take the size, and the number of objects in a container."""
        super().__init__(value)
        self._objects = objects

    def human_readable(self) -> str:
        """Return the size as text."""
        return _size(self._value, self._objects)

    def __lt__(self, other: object) -> bool:
        """Return whether this size is smaller."""
        return isinstance(other, Size) and (-1 if self._value is None else self._value) < (
            -1 if other._value is None else other._value
        )


def _size(size: int | None, objects: int | None) -> str:
    """Return a size, and the number of objects behind it; empty: nothing is known of either.

    A resource without a size has no objects. So an unknown size is said only beside their number.
    """
    if objects is None:
        return "" if size is None else size_text(size)
    known = "size not known" if size is None else size_text(size)
    return f"{known}, {objects} object{'' if objects == 1 else 's'}"


class Name(columns.FormattableColumn):
    """A name. A table has the id of what has no name."""

    def __init__(self, value: str | None, id_: Any) -> None:
        super().__init__(value)
        self._id = id_

    def __lt__(self, other: object) -> bool:
        """Return whether this name comes first."""
        return isinstance(other, Name) and (self._value or "") < (other._value or "")

    def human_readable(self) -> str:
        """Return the name or the id."""
        return printable(str(self._value or self._id or ""))


#: By shape: the cell of a field with one such object, or a list of them.
_OF_SHAPES: Mapping[type[Shape], Callable[[Any], Any]] = {
    shapes.Approval: Approvals,
    shapes.Blocker: Blockers,
    shapes.BlockingResource: References,
    shapes.ChildDeletion: Children,
    shapes.Condition: Conditions,
    shapes.Count: Counts,
    shapes.Force: Forced,
    shapes.Grant: Grants,
    shapes.Lien: Liens,
    shapes.NotCoveredType: NotCovered,
    shapes.PlannedType: Types,
    shapes.Progress: Progress,
    shapes.ScannedType: Coverage,
    shapes.Selection: Selected,
    shapes.TypeCount: Numbers,
    shapes.Waiver: Waivers,
}
#: By type: the cell of such a field.
_OF_TYPES: Mapping[Any, Callable[[Any], Any]] = {list[str]: Words, list[list[str]]: Order, dict[str, Any]: Fields}


def cell(field: TypedField, value: Any) -> Any:
    """Return what a table has for a value; a missing list or object counts as empty, unless it can be ``null``."""
    if field.name == "size":
        return Size(value)
    made = _OF_SHAPES.get(field.nested) if field.nested else _OF_TYPES.get(field.kind)
    if made is None or (value is None and field.null):
        return value
    return made(value or ([] if typing.get_origin(field.kind) is list else {}))


def listed(shape: type[Shape], names: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> Table:
    """Return a table with these fields of records.

    :param names: as in ``Shape.columns``
    """
    fields = {name: field_at(shape, name) for name in names}
    heads = tuple(each.label for each in fields.values())
    # A name stands for an id that has no column of its own.
    ids = {name: id_ for name in fields if (id_ := _id_of(name)) in shape.fields and id_ not in fields}

    def made(row: Mapping[str, Any], name: str) -> Any:
        value = _at(row, name)
        if name == "size":
            return Size(value, row.get("objects"))
        return Name(value, row.get(ids[name])) if name in ids else cell(fields[name], value)

    return heads, (tuple(made(row, name) for name in fields) for row in rows)


def _id_of(name: str) -> str:
    """Return the field with the id of what a field names, such as ``project_id`` for ``project_name``."""
    return f"{name.removesuffix('name')}id" if name.endswith("name") else ""


def of_list(
    shape: type[Shape],
    parsed_args: argparse.Namespace,
    rows: Iterable[Mapping[str, Any]],
    columns_: tuple[str, ...] = (),
) -> Table:
    """Return a list. A table has the columns that fit on a terminal, unless more are asked for.

    ``--long``, ``-c`` and the formats for programs have all columns.

    :param columns_: the columns of the table; without them, those of the shape
    """
    few = parsed_args.formatter == "table" and not parsed_args.columns and not parsed_args.long
    first = columns_ or shape.columns
    names = first if few else tuple(dict.fromkeys((*first, *shape.columns, *shape.wide)))
    return listed(shape, names, rows)


def details(shape: type[Shape], row: Mapping[str, Any], names: Iterable[str] = ()) -> Table:
    """Return the fields of one record, by their names; a field of a newer server is shown as it is.

    :param names: the fields; without them, all but the links
    """
    shown = tuple(names) or tuple(name for name in row if name != "links")
    return shown, [cell(shape.fields[name], row[name]) if name in shape.fields else _new(row[name]) for name in shown]


def _new(value: Any) -> Any:
    """Return what a table has for the value of a field that only a newer server knows."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return Words(value)
    return Fields(value) if isinstance(value, dict) else value


def _at(row: Mapping[str, Any], path: str) -> Any:
    """Return the value of a column; ``None``: the server did not send it."""
    name, _, inner = path.partition(".")
    return _at(row.get(name) or {}, inner) if inner else row.get(name)
