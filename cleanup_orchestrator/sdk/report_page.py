"""The report of a deletion as one HTML page, with an annex: for a browser, a printer or a PDF.

The page has no script, no link, no image and no font, and forbids all of them. Every text of the report is escaped:
users choose the names of resources, and services write messages.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from cleanup_orchestrator.sdk.text import one_line

#: Deleted and abandoned resources that the annex lists at most. The JSON of the report has all of them.
MOST_LISTED: Final = 2000
#: The same in a PDF: the layout of 500 of them takes some seconds, and that of 2,000 a minute.
MOST_IN_PDF: Final = 500
#: Resource types on the first page at most. The annex has all.
_MOST_TYPES: Final = 6
#: Rows of one table of the annex: the layout of a long table takes long.
_ROWS: Final = 100
#: Characters of a text that a cell shows at most.
_MOST_CHARACTERS: Final = 400

#: The fields of a deletion that say why it was requested, with their titles. Those that the API does not have are left
#: out. A new field of this kind is one more line.
WHY: Final = (("request_reason", "Reason"), ("ticket", "Ticket"), ("not_before", "Not before"))

_STYLE = """
@page { size: A4; margin: 11mm 12mm; @bottom-right { content: counter(page) " / " counter(pages); font-size: 8pt } }
body { font: 9pt/1.25 sans-serif; color: #111; max-width: 190mm; margin: 1em auto }
h1 { font-size: 14pt; margin: 0 0 .3em }
h2 { font-size: 10.5pt; margin: .7em 0 .2em } .box h2, .box p { margin: .2em 0 }
table { border-collapse: collapse; width: 100%; margin: .3em 0 } td, th { text-align: left; vertical-align: top;
padding: 1px 6px 1px 0; border-bottom: 1px solid #ddd; overflow-wrap: anywhere } th { font-weight: 600 }
table { table-layout: fixed } th.k { width: 36mm } .box { font-size: 8pt }
div.t th:nth-child(1) { width: 24mm } div.t th:nth-child(2) { width: 52mm } div.t th:nth-child(6) { width: 22mm }
div.t :nth-child(8) { width: 24mm; padding-left: 3mm }
div.r { font-size: 7.5pt } div.r th:nth-child(1) { width: 29mm } div.r th:nth-child(2) { width: 20mm }
div.r th:nth-child(3) { width: 38mm } div.r th:nth-child(4) { width: 54mm } div.r th:nth-child(6) { width: 14mm }
td.n, th.n { text-align: right }
.verdict { padding: .5em .7em; font-weight: 600; border: 2px solid #a00; color: #700 }
.verdict.proven { border-color: #070; color: #050 }
.box { border: 1px solid #999; padding: .2em .7em; margin: .5em 0; break-inside: avoid }
.annex { break-before: page } code { font-size: 8.5pt; overflow-wrap: anywhere }
ul { margin: .3em 0; padding-left: 1.4em }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

#: The types of journal lines that name resources in the annex, and what became of these.
_FATES: Final = {"resource.deleted": "deleted", "resource.abandoned": "abandoned"}


def page(document: Mapping[str, Any], most_listed: int = MOST_LISTED) -> str:
    """Return the HTML page of a report.

    :param document: the answer of the API
    :param most_listed: resources that the annex lists at most
    """
    report = _mapping(document.get("report"))
    d, facts = _mapping(report.get("deletion")), _mapping(report.get("facts"))
    title = f"Deletion report: project {_text(d.get('project_name'))}"
    proven = " proven" if report.get("proven") is True else ""
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="verdict{proven}">{_text(report.get("verdict"))}</p>',
        _pairs(_who(report, d)),
        "<h2>Proof</h2>",
        _pairs(_proof(report, facts)),
        "<h2>Resource types</h2>",
        *_first_types(d, facts),
        *_exceptions(facts),
        f'<div class="box"><h2>What remains</h2><p>{_text(report.get("remains"), 4000)}</p></div>',
        '<div class="box"><h2>What this report rests on, and who could have falsified it</h2>',
        _items(report.get("rests_on")),
        "</div>",
        *_annex(document, d, facts, most_listed),
    ]
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="referrer" content="no-referrer"><title>{title}</title><style>{_STYLE}</style>'
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _who(report: Mapping[str, Any], d: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what the first table has, escaped."""
    yield "Project", f"{_text(d.get('project_name'))} <code>{_text(d.get('project_id'))}</code>"
    yield "Domain", f"<code>{_text(d.get('domain_id'))}</code>"
    yield "Deletion", f"<code>{_text(d.get('id'))}</code>, attempt {_text(d.get('attempt'))}"
    mode = f"{_text(d.get('mode'))}{', dry run' if d.get('dry_run') else ''}, {_text(d.get('origin'))}"
    yield "Mode, origin", mode
    yield "Requested", _by(d, d.get("created_at"))
    for name, label in WHY:
        if d.get(name):
            yield label, _text(d[name])
    yield "Status", f"{_text(d.get('status'))}, ended {_text(d.get('finished_at') or 'not yet')}"
    for approval in map(_mapping, _list(d.get("approvals"))):
        yield "Approved", f"{_by(approval, approval.get('at'))}: {_text(approval.get('reason'))}"
    if forced := _mapping(d.get("forced")):
        yield "Forced", f"{_by(forced, forced.get('at'))}: {_text(forced.get('reason'))}"
    for waiver in map(_mapping, _list(d.get("waivers"))):
        where = " ".join(str(waiver.get(name) or "") for name in ("service_type", "region"))
        yield "Waiver", f"{_text(where)}, until {_text(waiver.get('expires_at'))}: {_text(waiver.get('reason') or '')}"
    yield "Report made", f"{_text(report.get('made_at'))} by {_text(report.get('made_by'))}"


def _proof(report: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what the second table has, escaped."""
    lock, chain = _mapping(report.get("lock")), _mapping(report.get("journal"))
    driver = f"driver {_text(lock.get('driver') or 'unknown')}, evidence <code>{_text(lock.get('evidence'))}</code>"
    yield "Lock", f"since {_text(lock.get('held_since') or 'never')}, {driver}"
    if lock.get("unseen_changes"):
        yield "", _text(lock["unseen_changes"])
    yield "Project disabled", f"since {_text(lock.get('closed_since') or 'never')}"
    settled = f"{_text(lock.get('settled_at') or 'never')} ({_text(lock.get('token_cache_time'))} s token cache)"
    yield "No old token after", settled
    for number, each in enumerate(map(_mapping, _list(facts.get("inventories"))), 1):
        span = f"{_second(each.get('began_at'))} to {_second(each.get('ended_at'))}"
        yield f"Empty inventory {number}", f"{span}: {_text(each.get('message'))}"
    problem = f" <b>{_text(chain['problem'])}</b>" if chain.get("problem") else ""
    lines = f"{_text(chain.get('length'))} lines, {_text(chain.get('withheld'))} of them not all shown to this reader"
    yield "Journal", f"{lines}, digest <code>{_text(chain.get('digest'))}</code>{problem}"
    signed = f"key <code>{_text(report.get('key'))}</code>; this page is not signed: check the JSON of the report"
    yield "Signature", signed if report.get("key") else "<b>unsigned</b>: anyone can write such a report"


_TYPES: Final = ("Region", "Type", "Found", "Deleted", "Kept", "Abandoned", "Left", "Last list")
_NUMBERS: Final = range(2, 7)  #: the columns of these with a number


def _first_types(d: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterable[str]:
    """Yield the types for the first page: those that were not listed, and those with the most resources."""
    rows = _types(d, facts)
    told = [row for row in rows if any(row[2:7]) or not _clear(row)]
    told.sort(key=lambda row: (_clear(row), -row[2] if isinstance(row[2], int) else 0))
    yield f'<div class="t">{_table(_TYPES, told[:_MOST_TYPES], numbers=_NUMBERS)}</div>'
    if more := len(rows) - len(told[:_MOST_TYPES]):
        empty = len(rows) - len(told)
        yield f"<p>{more} more types, in the annex; of {empty} the lists were empty from the beginning.</p>"


def _clear(row: Sequence[Any]) -> bool:
    """Whether the latest list of a type was complete and empty."""
    return str(row[7]).startswith("clear")


def _types(d: Mapping[str, Any], facts: Mapping[str, Any]) -> list[list[Any]]:
    """Return one row for each type: what the latest lists found, and what the journal names."""
    place = ("region", "service", "type")
    counts = {tuple(str(c.get(n, "")) for n in place): c for c in map(_mapping, _list(d.get("counts")))}
    named = {tuple(str(c.get(n, "")) for n in place): c for c in map(_mapping, _list(facts.get("types")))}
    rows = []
    for key in sorted({*counts, *named}):
        count, journal = counts.get(key, {}), named.get(key, {})
        numbers = [count.get("found"), journal.get("deleted", 0), count.get("kept"), journal.get("abandoned", 0)]
        seen = f"{count.get('outcome') or 'no longer listed'} {count.get('reason') or ''}"
        region, service, type_ = key
        rows.append([region, f"{service}.{type_}", *numbers, count.get("remaining"), seen])
    return rows


def _exceptions(facts: Mapping[str, Any]) -> Iterable[str]:
    for name, label in (("unseen", "Could not be seen, and was abandoned"), ("waivers", "Waived: not looked for")):
        if found := _list(facts.get(name)):
            yield f"<h2>{label}</h2>" + _items(_mapping(each).get("message") for each in found)


def _annex(document: Mapping[str, Any], d: Mapping[str, Any], facts: Mapping[str, Any], most: int) -> Iterable[str]:
    """Yield the annex: the requests, all types, and the resources as the journal names them."""
    requests = [
        [f"{r.get('at')!s:.19}Z", *(r.get(n) for n in ("type", "actor", "message"))]
        for r in map(_mapping, _list(facts.get("requests")))
    ]
    yield '<h2 class="annex">Annex: requests</h2>' + _table(("Time", "Type", "User", "Text"), requests)
    types = _table(_TYPES, _types(d, facts), numbers=_NUMBERS)
    yield f'<div class="t"><h2>Annex: resource types</h2>{types}</div>'
    rows, total = list[Sequence[Any]](), 0
    for line in map(_mapping, _list(document.get("journal"))):
        fate, data = _FATES.get(str(line.get("type"))), _mapping(line.get("data"))
        resources = _list(data.get("resources")) if fate else []
        total += len(resources)
        for each in map(_mapping, resources[: max(0, most - len(rows))]):
            kind = ".".join(str(data.get(n, "")) for n in ("service", "type"))
            rows.append([f"{line.get('at')!s:.19}Z", data.get("region"), kind, each.get("id"), each.get("name"), fate])
    yield '<div class="r"><h2>Annex: resources</h2>'
    for start in range(0, max(1, len(rows)), _ROWS):
        yield _table(("Time", "Region", "Type", "ID", "Name", ""), rows[start : start + _ROWS])
    yield "</div>"
    if total > len(rows):
        yield f"<p><b>{total - len(rows)} more lines, in the JSON of the report.</b></p>"


def _by(record: Mapping[str, Any], at: Any) -> str:
    user = f"{_text(record.get('user_name') or 'unknown')} <code>{_text(record.get('user_id'))}</code>"
    return f"{_text(at)} by {user}, request <code>{_text(record.get('request_id'))}</code>"


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values. The values are escaped already."""
    return (
        "<table>" + "".join(f'<tr><th class="k">{name}</th><td>{value}</td></tr>' for name, value in pairs) + "</table>"
    )


def _table(titles: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Iterable[int] = ()) -> str:
    """Return a table. Its values are escaped here."""
    right = dict.fromkeys(numbers, ' class="n"')
    head = "".join(f"<th{right.get(index, '')}>{title}</th>" for index, title in enumerate(titles))
    body = "".join(
        "<tr>" + "".join(f"<td{right.get(index, '')}>{_text(value)}</td>" for index, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>" if body else "<p>None.</p>"


def _items(texts: Any) -> str:
    found = [texts] if isinstance(texts, str) else list(texts or ())
    return "<ul>" + "".join(f"<li>{_text(text)}</li>" for text in found) + "</ul>"


def _text(value: Any, most: int = _MOST_CHARACTERS) -> str:
    """Return a value as one line of text for HTML, without control characters."""
    line = "" if value is None else one_line(value)
    return html.escape(line if len(line) <= most else f"{line[:most]}...")


def _second(value: Any) -> str:
    """Return a time in whole seconds."""
    return _text(f"{value!s:.19}Z" if value else "?")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []
