"""``openstack project deletion report``: writes the report of a deletion as JSON, HTML or PDF."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from osc_lib import exceptions

from cleanup_orchestrator.osc import usage
from cleanup_orchestrator.osc.deletion import DeletionCommand, add_deletion
from cleanup_orchestrator.sdk import report_page

_NO_PDF = (
    "PDF needs the library WeasyPrint and the system library Pango: pip install 'cleanup-orchestrator[pdf]', or use "
    "--format html and print the page"
)


class ReportDeletion(DeletionCommand):
    """Write the report of a deletion."""

    _description = (
        "Write the report of a deletion: who requested it, what was found, deleted, kept and abandoned, and what "
        "proves it. The JSON has the whole journal and the signature, and can be checked without the cloud. HTML and "
        "PDF are for people, and are not signed."
    )
    _epilog = """
    Examples:

      Keep the report of a deletion, and check it:
        openstack project deletion report demo --output demo.json
        cleanup-orchestrator-manage report verify demo.json --keys keys.json

      A page for the customer:
        openstack project deletion report demo --format pdf --output demo.pdf
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser)
        parser.add_argument(
            "--format", choices=("json", "html", "pdf"), default="json", help="Form of the report (default: json)"
        )
        parser.add_argument("--output", metavar="<file>", help="File to write (default: the standard output)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Get the report and write it."""
        if parsed_args.format == "pdf" and not parsed_args.output and sys.stdout.isatty():
            raise usage.UsageError("a PDF is no text for a terminal: give --output")
        render = pdf_renderer() if parsed_args.format == "pdf" else None
        found = self.on_deletion(parsed_args, parsed_args.deletion, self.client.deletion_report)
        document = dict(found.items())
        if parsed_args.format == "json":
            content = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        else:
            most = report_page.MOST_LISTED if render is None else report_page.MOST_IN_PDF
            page = report_page.page(document, most)
            content = page.encode() if render is None else render(page)
        _write(parsed_args.output, content)


def pdf_renderer() -> Any:
    """Return a function that turns an HTML page into a PDF.

    :raises CommandError: the library for it is not installed
    """
    try:
        weasyprint = importlib.import_module("weasyprint")
    except (ImportError, OSError):  # OSError: Pango is missing
        raise exceptions.CommandError(_NO_PDF) from None

    def render(page: str) -> Any:
        return weasyprint.HTML(string=page, base_url=None, url_fetcher=_refuse).write_pdf()

    return render


def _refuse(url: str, *_arguments: Any, **_options: Any) -> NoReturn:
    """Fetch nothing: the page needs nothing, and a name in it must not make a call."""
    raise ValueError("the page of a report has no URL")


def _write(path: str | None, content: bytes) -> None:
    """Write to a file, or to the standard output.

    :raises CommandError: the file cannot be written
    """
    if path is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise exceptions.CommandError(f"{path} cannot be written: {error.strerror or error}") from None
