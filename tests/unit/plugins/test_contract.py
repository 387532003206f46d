"""The versions of the plugin contract: a plugin for an old version works with a warning, then it is refused."""

import dataclasses
import logging
import sys

import pytest
import stevedore
from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from cleanup_orchestrator.cmd.status import Checks
from cleanup_orchestrator.core.conformance import Verdict
from cleanup_orchestrator.plugins import conformance, registry
from cleanup_orchestrator.plugins.contract import CONTRACT_VERSION, SUPPORTED_VERSIONS
from cleanup_orchestrator.service import Components

OLD = CONTRACT_VERSION  #: the version that the old plugin states
NEW = CONTRACT_VERSION + 1
DEPRECATED = {OLD: "3.0.0", NEW: ""}  #: the next release: the newest version, and the old one deprecated
REFUSED = {NEW: ""}  #: release 3.0.0

PLUGIN = f"""
from cleanup_orchestrator.plugins.base import ResourceType, Rest, Service

SERVICE = Service(
    "function-engine",
    (
        ResourceType(
            "lease",
            list=Rest("function-engine", "/leases", key="leases", query={{"project_id": "{{project_id}}"}}),
            show=Rest("function-engine", "/leases/{{id}}", key="lease"),
            delete=Rest("function-engine", "/leases/{{id}}", method="DELETE"),
            source="GET, DELETE /leases",
        ),
    ),
    contract_version={OLD},
)
"""


@pytest.fixture
def old_plugin(tmp_path, monkeypatch):
    """An installed package with an entry point. Other plugins state the same version, and are not the point."""
    (tmp_path / "old_functions_plugin.py").write_text(PLUGIN)
    metadata = tmp_path / "old_functions_plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: old-functions-plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[{registry.NAMESPACE}]\nfunction-engine = old_functions_plugin:SERVICE\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(stevedore.ExtensionManager, "ENTRY_POINT_CACHE", {})  # what was installed before
    monkeypatch.delitem(sys.modules, "old_functions_plugin", raising=False)


def of_functions(sentences):
    return [sentence for sentence in sentences if "for function-engine is" in sentence]


@pytest.mark.parametrize(
    ("versions", "warning"),
    [
        (SUPPORTED_VERSIONS, ""),
        (DEPRECATED, f"written for version {OLD} of the plugin contract, which is deprecated: release 3.0.0 refuses"),
    ],
)
def test_an_old_plugin_loads_and_a_deprecation_is_said(old_plugin, versions, warning):
    loaded = registry.load(versions)
    assert [type_.name for type_ in loaded.services["function-engine"].types] == ["lease"]
    said = of_functions(loaded.deprecations)
    assert len(said) == bool(warning)
    assert all(warning in sentence and registry.MANUAL in sentence for sentence in said)


def test_only_the_newest_version_has_no_end(old_plugin):
    plugin = registry.load().services["function-engine"]
    for version in SUPPORTED_VERSIONS:
        said = registry.deprecation(dataclasses.replace(plugin, contract_version=version))
        assert bool(said) is (version < CONTRACT_VERSION), "who has an old plugin is told which release refuses it"


def test_a_plugin_that_does_not_load_is_an_error(old_plugin, tmp_path):
    """Without it, its service would be one that nothing supports."""
    (tmp_path / "old_functions_plugin.py").write_text("import no_such_module_of_a_vendor\n")
    with pytest.raises(registry.InvalidPlugin, match="plugin function-engine does not load: No module named"):
        registry.load()


def test_a_plugin_is_refused_once_its_version_has_lost_its_support(old_plugin):
    expected = rf"written for version {OLD}.*supports version {NEW}: install a later release of the plugin"
    with pytest.raises(registry.InvalidPlugin, match=expected):
        registry.load(REFUSED)


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        (0, "install a later release of the plugin"),
        (NEW + 1, "upgrade cleanup-orchestrator, or install an earlier release of the plugin"),
        ("1", "state a whole number in contract_version"),
        (None, "state a whole number in contract_version"),
        ([], "state a whole number in contract_version"),
    ],
)
def test_the_refusal_says_the_way_out(old_plugin, version, remedy):
    plugin = dataclasses.replace(registry.load().services["function-engine"], contract_version=version)
    with pytest.raises(registry.InvalidPlugin, match=f"version {NEW}: {remedy}"):
        registry.Registry([plugin], REFUSED)


def test_the_conformance_check_warns_and_a_warning_is_no_problem(old_plugin):
    plugin = registry.load().services["function-engine"]
    warnings = [found for found in conformance.check(plugin, versions=DEPRECATED) if found.verdict is Verdict.WARNING]
    assert [(found.subject, found.rule) for found in warnings] == [
        ("function-engine", "contract-version"),
        ("function-engine.lease", "used-by"),
    ]
    assert conformance.problems(plugin) == []


@pytest.mark.parametrize(
    ("versions", "code", "text"),
    [
        (SUPPORTED_VERSIONS, upgradecheck.Code.SUCCESS, None),
        (DEPRECATED, upgradecheck.Code.WARNING, f"for function-engine is written for version {OLD}"),
        (REFUSED, upgradecheck.Code.FAILURE, f"is written for version {OLD}"),
    ],
)
def test_the_upgrade_check_says_the_same(old_plugin, versions, code, text):
    result = Checks(cfg.ConfigOpts(), versions)._plugins()
    assert result.code is code
    assert (text in result.details) if text else result.details is None


def test_a_process_logs_one_warning_for_each_deprecated_plugin(old_plugin, caplog):
    with caplog.at_level(logging.WARNING):
        parts = Components.__new__(Components)  # neither a database nor a bus
        parts.conf, parts.versions = cfg.ConfigOpts(), DEPRECATED
        assert parts.registry is parts.registry
    assert len(of_functions(record.getMessage() for record in caplog.records)) == 1
