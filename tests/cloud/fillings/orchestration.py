"""Heat: stacks in every state, what they leave behind, and separate configs and deployments."""

from __future__ import annotations

import time
import uuid
from typing import Any

from tests.cloud.fillings.base import FillError, Filling, Rest

SECONDS = 600  # a busy machine takes its time over a stack
HIDDEN = "data-processing-cluster"  #: in hidden_stack_tags by default

NETWORK = {"type": "OS::Neutron::Net"}
BROKEN = {"type": "OS::Heat::TestResource", "properties": {"fail": True}}


def subnet(cidr: str) -> dict[str, Any]:
    return {"type": "OS::Neutron::Subnet", "properties": {"network": {"get_resource": "network"}, "cidr": cidr}}


def heat(f: Filling) -> Rest:
    return Rest(f.filled.connection.orchestration)


def find(f: Filling, name: str) -> dict[str, Any] | None:
    query = {"name": name, "show_hidden": "true"}
    return next(iter(heat(f).call("GET", "/stacks", params=query)["stacks"]), None)


#: The body of each stack, by its name: a stack that failed because a service was busy is created again.
_made: dict[str, tuple[dict[str, Any], str]] = {}


def make(f: Filling, suffix: str, resources: dict[str, Any], tags: str = "") -> str:
    """Begin the creation of a stack with that name, once; it may fail later."""
    name = f"{f.name}-{suffix}"
    _made[name] = resources, tags
    found = find(f, name)
    if found is None:
        body = {"stack_name": name, "template": {"heat_template_version": "2018-08-31", "resources": resources}}
        found = heat(f).call("POST", "/stacks", {**body, "tags": tags} if tags else body)["stack"]
    return f.note("stack", found["id"])


def wait(f: Filling, suffix: str, *wanted: str) -> dict[str, Any]:
    """The stack once it has one of the states; gone counts as ``GONE``."""
    deadline = time.monotonic() + SECONDS
    while True:
        found = find(f, f"{f.name}-{suffix}") or {"stack_status": "GONE"}
        if found["stack_status"] in wanted:
            return found
        if found["stack_status"] == "CREATE_FAILED" and "HTTP 503" in found.get("stack_status_reason", ""):
            make_again(f, suffix, found["id"])
            continue
        on_its_way = found["stack_status"].endswith("IN_PROGRESS") or found["stack_status"] == "DELETE_COMPLETE"
        if not on_its_way or time.monotonic() > deadline:
            raise FillError(
                f"the stack {f.name}-{suffix} is {found['stack_status']}: {found.get('stack_status_reason')}"
            )
        time.sleep(0.5)


def make_again(f: Filling, suffix: str, failed: str) -> None:
    """Delete a stack that failed because a service was busy, and make it once more: Heat itself does not try again."""
    heat(f).call("DELETE", f"/stacks/{f.name}-{suffix}/{failed}", ok=(204, 404))
    wait(f, suffix, "GONE")
    f.filled.ids["stack"].remove(failed)
    make(f, suffix, *_made[f"{f.name}-{suffix}"])


def stacks(f: Filling) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": NETWORK}}
    secret = {"type": "OS::Barbican::Secret", "properties": {"payload": "of a stack"}}
    handle = {"type": "OS::Heat::WaitConditionHandle"}  # makes a project and a user in Heat's domain
    make(f, "plain", {"network": NETWORK, "subnet": subnet("10.81.0.0/24"), "handle": handle}, "web,kept-in-git")
    make(f, "nested", {"group": group})
    make(f, "hidden", {"network": NETWORK}, HIDDEN)
    make(f, "secret", {"secret": secret, "container": {"type": "OS::Swift::Container"}})
    make(f, "retain", {"network": {**NETWORK, "deletion_policy": "Retain"}})
    make(f, "broken", {"network": NETWORK, "broken": BROKEN})
    for suffix in ("plain", "nested", "hidden", "secret", "retain"):
        wait(f, suffix, "CREATE_COMPLETE", "SNAPSHOT_COMPLETE")
    wait(f, "broken", "CREATE_FAILED")


def stack_snapshot(f: Filling) -> None:
    stack = wait(f, "plain", "CREATE_COMPLETE", "SNAPSHOT_COMPLETE")
    path = f"/stacks/{stack['stack_name']}/{stack['id']}/snapshots"
    if not heat(f).call("GET", path)["snapshots"]:
        heat(f).call("POST", path, {"name": f"{f.name}-snapshot"})
    wait(f, "plain", "SNAPSHOT_COMPLETE")
    f.note("stack snapshot", heat(f).call("GET", path)["snapshots"][0]["id"])


def occupied_stack(f: Filling) -> None:
    """Another user has a port on its network, which blocks the delete of the stack."""
    occupied = make(f, "occupied", {"network": NETWORK, "subnet": subnet("10.82.0.0/24")})
    wait(f, "occupied", "CREATE_COMPLETE")
    path = f"/stacks/{f.name}-occupied/{occupied}/resources/network"
    network = heat(f).call("GET", path)["resource"]["physical_resource_id"]
    body = {"name": f"{f.name}-squatter", "network_id": network}
    f.note("squatting port", f.network.ensure("ports", "port", body, project_id=f.project_id))


def failed_stack(f: Filling) -> None:
    """Its delete has failed: its container has an object that does not belong to the stack."""
    full = make(f, "full", {"container": {"type": "OS::Swift::Container"}})
    stack = wait(f, "full", "CREATE_COMPLETE", "DELETE_FAILED")
    f.note("failed stack", full)
    if stack["stack_status"] == "DELETE_FAILED":
        return
    path = f"/stacks/{f.name}-full/{full}"
    container = heat(f).call("GET", f"{path}/resources/container")["resource"]["physical_resource_id"]
    f.objects_store.raw("PUT", f"/{container}/foreign", data=b"not the stack's")
    heat(f).call("DELETE", path)
    wait(f, "full", "DELETE_FAILED")


def abandoned_stack(f: Filling) -> None:
    """Heat abandons it and leaves its resources."""
    if f.network.call("GET", "/networks", params={"name": f"{f.name}-abandoned"})["networks"]:
        return
    network = {**NETWORK, "properties": {"name": f"{f.name}-abandoned"}}
    abandoned = make(f, "abandoned", {"network": network})
    wait(f, "abandoned", "CREATE_COMPLETE")
    answer = heat(f).raw("DELETE", f"/stacks/{f.name}-abandoned/{abandoned}/abandon", ok=(400, 403, 404, 500))
    if answer.status_code < 400:  # else it is switched off, and this is one stack more
        wait(f, "abandoned", "GONE")
        f.filled.ids["stack"].remove(abandoned)


def software(f: Filling) -> None:
    """A config with a deployment (to a server that is long gone), and one without.

    If a caller reads the deployment by its id, Heat answers with an error: the config names an invalid place for the
    signal.
    """
    inputs = {"deploy_signal_transport": "TEMP_URL_SIGNAL", "deploy_signal_id": "nonsense"}
    known = {row["name"]: row["id"] for row in heat(f).call("GET", "/software_configs")["software_configs"]}
    for suffix in ("deployed", "idle"):
        body = {
            "name": f"{f.name}-{suffix}",
            "group": "script",
            "config": "echo",
            "inputs": [{"name": name, "value": value} for name, value in inputs.items()],
        }
        config = known.get(body["name"]) or heat(f).call("POST", "/software_configs", body)["software_config"]["id"]
        f.note("software config", config)
    config = f.first("software config")
    rows = heat(f).call("GET", "/software_deployments")["software_deployments"]
    found = [row["id"] for row in rows if row["config_id"] == config]
    if not found:
        body = {"config_id": config, "server_id": str(uuid.uuid4()), "action": "CREATE", "status": "IN_PROGRESS"}
        found = [heat(f).call("POST", "/software_deployments", body)["software_deployment"]["id"]]
    f.note("software deployment", *found)


KINDS = (stacks, stack_snapshot, occupied_stack, failed_stack, abandoned_stack, software)
