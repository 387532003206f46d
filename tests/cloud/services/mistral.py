"""Mistral: its API, and in the same process its engine, executor and event engine."""

from __future__ import annotations

from tests.cloud.services.base import FAKES, Service, Site, common, ini, python_path, wsgi


def service(site: Site) -> Service:
    home = site.home("mistral")
    config = common(site, "mistral")
    config["DEFAULT"]["transport_url"] = "fake://"  # within the process
    config |= {
        "pecan": {"auth_enable": "true"},
        "api": {"allow_action_execution_deletion": "true"},
        "cron_trigger": {"enabled": "false"},  # no trigger of the tests is due
    }
    files = ("--config-file", str(home / ".mistral/mistral.conf"))
    environment = {"HOME": str(home)} | python_path(
        FAKES
    )  # its WSGI module reads the configuration only from ~/.mistral
    manage = (site.bin("mistral-db-manage"), *files)
    return Service(
        name="mistral",
        files={".mistral/mistral.conf": ini(config, site.extra_config.get("mistral"))},
        folders=("state", "lock"),
        databases=("mistral",),
        schema=((*manage, "upgrade", "head"), (*manage, "populate")),
        processes=(wsgi(site, "mistral", ("--module", "mistral_engine:application"), environment=environment),),
        catalog_type="workflowv2",  # as DevStack registers it: an alias of the official type
        catalog_url=f"{site.url('mistral')}/v2",
        probe=f"{site.url('mistral')}/v2/workflows?limit=1",
    )
