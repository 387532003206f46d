"""The catalog of a project: what answers for each entry, and what a waiver leaves out."""

import pytest
from oslo_config import cfg

from cleanup_orchestrator.cloud import catalog
from cleanup_orchestrator.cloud.catalog import Entry, ServiceCatalog
from tests.unit.core.test_waivers import waiver
from tests.unit.worker.test_survey import Keystone, surveyed


@pytest.mark.parametrize(
    ("entry", "waivers", "answered_by", "why"),
    [
        (("R1", "network"), [], "plugin", "no waiver covers it"),
        (("R1", "network"), [waiver()], "waived", "also where a plugin would answer: it may have been dead for long"),
        (("R1", "network"), [waiver(region="R1")], "waived", "in its region"),
        (("R2", "network"), [waiver(region="R1")], "plugin", "another region is not waived"),
        (("R1", "network"), [waiver("dns")], "plugin", "another service is not waived"),
        (("R1", "dns"), [], "unsupported", "no plugin handles it"),
        (("R1", "dns"), [waiver("dns")], "waived", "a waiver covers an unsupported service"),
        (("R1", "placement"), [waiver("placement")], "nothing_to_own", "there is nothing to go on without"),
        (("R1", "identity"), [waiver("identity")], "plugin", "the project is removed on Keystone's word"),
    ],
)
def test_the_status_of_a_catalog_entry(entry, waivers, answered_by, why):
    conf = cfg.ConfigOpts()
    conf.register_opts(catalog.OPTS["catalog"], group="catalog")
    conf([])
    answer = ServiceCatalog(conf, {"network": ("port",), "identity": ("trust",)}).status(Entry(*entry, "x"), waivers)
    assert answer.answered_by == answered_by, why
    assert (answer.waiver in waivers) is (answered_by == "waived")


def test_of_several_waivers_the_one_that_lasts_longest_is_relied_upon():
    """So that the end of another one changes nothing."""
    several = [waiver(id_="short"), waiver(id_="long", hours=5), waiver(id_="narrow", hours=2, region="R1")]
    assert [w.id for w in surveyed(Keystone(("network", "R1")), waivers=several).waivers] == ["long"]
