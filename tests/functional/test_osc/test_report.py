"""``openstack project deletion report``."""

import json
import sys
import types

import pytest

from cleanup_orchestrator.evidence.verify import parsed, verified
from cleanup_orchestrator.osc import report
from tests.support.evidence import document, new_signer

SIGNER = new_signer()


@pytest.fixture
def demo_report(stub_cloud, demo):
    """A deletion of the project ``demo`` with a report."""
    id_ = stub_cloud.add_deletion(demo, "deleted")
    stub_cloud.reports[id_] = document(SIGNER)
    return id_


def test_the_json_can_be_checked(openstack, demo_report, tmp_path):
    path = tmp_path / "report.json"
    result = openstack("project", "deletion", "report", "demo", "--output", path)
    assert (result.code, result.out, result.err) == (0, "", "")
    found = verified(parsed(path.read_bytes()), {SIGNER.public.kid: SIGNER.public})
    assert found.proven and found.kid == SIGNER.public.kid


def test_html(openstack, demo_report, tmp_path):
    path = tmp_path / "report.html"
    assert openstack("project", "deletion", "report", demo_report, "--format", "html", "--output", path).code == 0
    assert path.read_text().startswith("<!DOCTYPE html>") and "Two complete inventories" in path.read_text()


def test_the_standard_output(openstack, demo_report):
    out = openstack("project", "deletion", "report", "demo").out
    assert json.loads(out) == document(SIGNER) | {"signature": json.loads(out)["signature"]}


def test_a_file_that_cannot_be_written_is_one_line(openstack, demo_report, tmp_path):
    result = openstack("project", "deletion", "report", "demo", "--output", tmp_path)
    assert result.code == 1 and result.err.strip().endswith("cannot be written: Is a directory")


@pytest.mark.parametrize("error", [ImportError, OSError])
def test_without_the_library_for_pdf_the_error_names_the_extra(openstack, demo_report, tmp_path, monkeypatch, error):
    """Before the API is called. Without Pango, WeasyPrint raises an OSError."""

    def missing(_name):
        raise error("cannot load library 'libpango'")

    monkeypatch.setattr(report, "importlib", types.SimpleNamespace(import_module=missing))
    result = openstack("project", "deletion", "report", "demo", "--format", "pdf", "--output", tmp_path / "x.pdf")
    assert result.code == 1 and "pip install 'cleanup-orchestrator[pdf]'" in result.err
    assert result.err.strip().count("\n") == 0 and not (tmp_path / "x.pdf").exists()


def test_a_pdf_is_of_the_same_page_and_fetches_nothing(openstack, demo_report, tmp_path, monkeypatch):
    asked = {}

    class Document:
        def __init__(self, **options):
            asked.update(options)

        def write_pdf(self):
            return b"%PDF-1.7 " + str(len(asked["string"])).encode()

    monkeypatch.setitem(sys.modules, "weasyprint", types.SimpleNamespace(HTML=Document))
    path = tmp_path / "x.pdf"
    assert openstack("project", "deletion", "report", "demo", "--format", "pdf", "--output", path).code == 0
    assert path.read_bytes().startswith(b"%PDF") and asked["string"].startswith("<!DOCTYPE html>")
    assert asked["base_url"] is None
    with pytest.raises(ValueError, match="no URL"):
        asked["url_fetcher"]("file:///etc/passwd", timeout=10)


def test_a_deletion_that_is_not_there(openstack, stub_cloud):
    result = openstack("project", "deletion", "report", "0" * 8 + "-0000-4000-8000-" + "0" * 12)
    assert result.code != 0
