"""Keystone: objects that refer to a project. Keystone deletes some of them with the project, and leaves others."""

from __future__ import annotations

from tests.cloud.fillings.base import Filling


def application_credentials(f: Filling) -> None:
    """Keystone does not remove these with the project."""
    path = f"/users/{f.filled.user_id}/application_credentials"
    known = {c["name"]: c["id"] for c in f.identity.call("GET", path)["application_credentials"]}
    rules = [{"path": "/v2.0/networks", "method": "GET", "service": "network"}]
    for suffix, more in (("robot", {}), ("narrow-robot", {"access_rules": rules})):
        name = f"{f.name}-{suffix}"
        if name not in known:
            body = {"application_credential": {"name": name, **more}}
            known[name] = f.identity.call("POST", path, body)["application_credential"]["id"]
        f.note("application credential", known[name])


def ec2_credential(f: Filling) -> None:
    path = f"/users/{f.filled.user_id}/credentials/OS-EC2"
    known = [c for c in f.identity.call("GET", path)["credentials"] if c["tenant_id"] == f.project_id]
    if not known:
        known = [f.identity.call("POST", path, {"tenant_id": f.project_id})["credential"]]
    f.note("ec2 credential", known[0]["access"])


def trust(f: Filling) -> None:
    params = {"trustor_user_id": f.filled.user_id}
    listed = f.identity.call("GET", "/OS-TRUST/trusts", params=params)["trusts"]
    known = [item for item in listed if item["project_id"] == f.project_id]
    if not known:
        body = {
            "trustor_user_id": f.filled.user_id,
            "trustee_user_id": f.filled.colleague_id,
            "project_id": f.project_id,
            "impersonation": False,
            "roles": [{"name": "member"}],
        }
        known = [f.identity.call("POST", "/OS-TRUST/trusts", {"trust": body})["trust"]]
    f.note("trust", known[0]["id"])


def project_tag(f: Filling) -> None:
    f.identity_admin.call("PUT", f"/projects/{f.project_id}/tags", {"tags": ["demo"]})
    f.note("project tag", "demo")


def project_limit(f: Filling) -> None:
    """A registered limit belongs to the cloud; the limit of the project belongs to the project."""
    service = f.identity_admin.call("GET", "/services", params={"type": "image"})["services"][0]["id"]
    common = {"service_id": service, "resource_name": "image_size_total", "region_id": "RegionOne"}
    params = {"service_id": service, "resource_name": common["resource_name"]}
    if not f.identity_admin.call("GET", "/registered_limits", params=params)["registered_limits"]:
        body = {"registered_limits": [{**common, "default_limit": 10000}]}
        f.identity_admin.call("POST", "/registered_limits", body)
    known = f.identity_admin.call("GET", "/limits", params={"project_id": f.project_id})["limits"]
    if not known:
        body = {"limits": [{**common, "project_id": f.project_id, "resource_limit": 5000}]}
        known = f.identity_admin.call("POST", "/limits", body)["limits"]
    f.note("limit", known[0]["id"])


KINDS = (application_credentials, ec2_credential, trust, project_tag, project_limit)
