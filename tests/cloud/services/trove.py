"""Trove: its API, its task manager and its conductor. No guest agent runs in the servers of its instances."""

from __future__ import annotations

from tests.cloud.identity import Rest
from tests.cloud.services.base import (
    HOST,
    REGION,
    SERVICE_PROJECT,
    Service,
    Site,
    common,
    credentials,
    daemon,
    ini,
    wsgi,
)

#: Seconds after which an instance without a guest agent gets the status ERROR.
USAGE_TIMEOUT = 10
TAG, FLAVOR = "trove-guest", "database"
#: Datastores and their versions. Of these, MariaDB has clusters.
DATASTORES = {"mysql": "8.0", "mariadb": "10.4"}


def service(site: Site) -> Service:
    home = site.home("trove")
    config = common(site, "trove")
    config["DEFAULT"] |= {
        "host": HOST,  # it takes no name
        "api_paste_config": site.venv / "etc/trove/api-paste.ini",
        "default_datastore": "mysql",
        "trove_volume_support": "false",
        "usage_timeout": USAGE_TIMEOUT,
        "agent_call_low_timeout": 2,
        "agent_call_high_timeout": 2,
        "update_status_on_fail": "true",
        # By default it looks for a type that the catalog does not have, and every delete of an instance fails.
        "cinder_service_type": "block-storage",
        # A test reads what Trove sends to the guest agent of an instance.
        "enable_secure_rpc_messaging": "false",
        # It counts quotas of all projects, in a request to Nova that Nova no longer has.
        "quota_notification_interval": "",
    }
    config |= {
        "mysql": {"volume_support": "false"},
        "mariadb": {"min_cluster_member_count": 2},
        "service_credentials": {
            **{key: value for key, value in credentials(site, "trove").items() if key != "auth_type"},
            "user_domain_name": "Default",
            "project_domain_name": "Default",
            "region_name": REGION,
        },
    }
    files = ("--config-file", str(home / "trove.conf"))
    (rules,) = site.venv.glob("lib/python*/site-packages/trove/templates")
    manage = (site.bin("trove-manage"), *files)
    return Service(
        name="trove",
        files={"trove.conf": ini(config, site.extra_config.get("trove"))},
        folders=("state", "lock"),
        databases=("trove",),
        schema=((*manage, "db_sync"),),
        after=("keystone", "glance", "neutron", "nova"),
        processes=(
            wsgi(site, "trove", ("--module", "trove.cmd.app_wsgi:application"), arguments=files),
            daemon(site, "trove-taskmanager", *files),
            daemon(site, "trove-conductor", *files),
        ),
        catalog_type="database",
        catalog_url=f"{site.url('trove')}/v1.0/%(project_id)s",
        settings=tuple(
            command
            for name, version in DATASTORES.items()
            for command in (
                (*manage, "datastore_update", name, ""),
                (*manage, "datastore_version_update", "--image-tags", TAG, name, version, name, "", "", "1"),
                (*manage, "datastore_update", name, version),
                (
                    *manage,
                    "db_load_datastore_config_parameters",
                    name,
                    version,
                    str(rules / name / "validation-rules.json"),
                ),
            )
        ),
        seed=seed,
    )


def seed(site: Site, admin: Rest) -> None:
    """Make an image that all projects see, a flavor, and room for the security groups of all instances.

    Without volumes an instance needs an ephemeral disk.
    """
    (own,) = admin.call("GET", f"/projects?name={SERVICE_PROJECT}")["projects"]
    quota = dict.fromkeys(("port", "security_group", "security_group_rule"), -1)
    admin.call("PUT", f"{site.url('neutron')}/v2.0/quotas/{own['id']}", {"quota": quota})
    images = f"{site.url('glance')}/v2/images"
    if not admin.call("GET", f"{images}?tag={TAG}")["images"]:
        body = {"name": TAG, "tags": [TAG], "visibility": "public", "disk_format": "raw", "container_format": "bare"}
        image = admin.call("POST", images, body)["id"]
        headers = {"Content-Type": "application/octet-stream"}
        admin.call("PUT", f"{images}/{image}/file", "guest", headers=headers)
    url = f"{site.url('nova')}/v2.1/flavors"
    if FLAVOR not in {flavor["name"] for flavor in admin.call("GET", url)["flavors"]}:
        body = {"name": FLAVOR, "id": FLAVOR, "ram": 64, "disk": 1, "vcpus": 1, "OS-FLV-EXT-DATA:ephemeral": 1}
        admin.call("POST", url, {"flavor": body})
