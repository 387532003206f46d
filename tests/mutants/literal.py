"""Defects in the calls that plugins declare: another path, query, body, microversion or token.

The tests compare the calls with texts that are written by hand, so that a wrong declaration does not agree with itself.
"""

from tests.mutants.mutation import Mutation, tests

PLUGINS = "cleanup_orchestrator/plugins/"
NETWORK = f"{PLUGINS}network/"
VOLUMES = f"{PLUGINS}block_storage/"
SHARES = f"{PLUGINS}shared_file_system/shares.py"
OCTAVIA = f"{PLUGINS}load_balancer.py"

CALLS = tests("plugins/literal_calls")

MUTATIONS = (
    # ---------------------------------------------------------------------------------------- proofs that prove nothing
    Mutation(
        "Octavia is proven by a list that is empty to other callers",
        OCTAVIA,
        'proof=Rest("load-balancer", "/lbaas/loadbalancers", query=',
        'proof=Rest("load-balancer", "/lbaas/quotas", query=',
        CALLS,
    ),
    Mutation(
        "Octavia is proven by the load balancers of the orchestrator's own project",
        OCTAVIA,
        'query={"project_id": "{project_id}", "limit": "1"}',
        'query={"limit": "1"}',
        CALLS,
    ),
    Mutation(
        "Aodh is proven by the alarms of the orchestrator's own project",
        f"{PLUGINS}alarm.py",
        'proof=Rest(TYPE, "/alarms", query={**_ALL, "limit": 1}),',
        'proof=Rest(TYPE, "/alarms", query={"limit": 1}),',
        CALLS,
    ),
    Mutation(
        "Keystone is proven by the regions, which everybody may list",
        f"{PLUGINS}identity.py",
        'proof=Rest("identity", "/services", key="services", query={"type": "identity"}),',
        'proof=Rest("identity", "/regions", key="regions", query={"type": "identity"}),',
        CALLS,
    ),
    Mutation(
        "Neutron is proven by the networks, which every project may list",
        f"{NETWORK}__init__.py",
        'proof=Rest("network", "/quotas", key="quotas"),',
        'proof=Rest("network", "/networks", key="networks"),',
        CALLS,
    ),
    Mutation(
        "Magnum is proven by the quotas of the token's project",
        f"{PLUGINS}container_infrastructure_management.py",
        'proof=Rest(TYPE, "/quotas", query={"all_tenants": "true", "limit": 1}),',
        'proof=Rest(TYPE, "/quotas", query={"limit": 1}),',
        CALLS,
    ),
    Mutation(
        "Zun is proven by the registries of the token's project",
        f"{PLUGINS}application_container.py",
        'proof=Rest(TYPE, "/registries", query={**_ALL, "limit": 1}),',
        'proof=Rest(TYPE, "/registries", query={"limit": 1}),',
        CALLS,
    ),
    # --------------------------------------------------------------------------------- lists that leave something out
    Mutation(
        "Nova lists the servers of the orchestrator's own project",
        f"{PLUGINS}compute/servers.py",
        'OF_PROJECT = {"all_tenants": "1", "project_id": "{project_id}"}',
        'OF_PROJECT = {"project_id": "{project_id}"}',
        CALLS,
    ),
    Mutation(
        "Cinder lists what the orchestrator's own project has",
        f"{VOLUMES}common.py",
        'collection.where(all_tenants="1", **query)',
        "collection.where(**query)",
        CALLS,
    ),
    Mutation(
        "Shares in the recycle bin are not listed",
        SHARES,
        'for soft_deleted in ("false", "true"):\n        query = {"all_tenants": "1", "project_id"',
        'for soft_deleted in ("false",):\n        query = {"all_tenants": "1", "project_id"',
        CALLS,
    ),
    Mutation(
        "Heat is asked for the stacks of a project by a filter that it does not know",
        f"{PLUGINS}orchestration/listing.py",
        '"tenant": "{project_id}",',
        '"project_id": "{project_id}",',
        CALLS,
    ),
    Mutation(
        "Hidden stacks are not listed",
        f"{PLUGINS}orchestration/listing.py",
        '            "show_hidden": "true",\n            "show_nested"',
        '            "show_nested"',
        CALLS,
    ),
    Mutation(
        "Trove lists the deleted instances, too",
        f"{PLUGINS}database/common.py",
        '_INSTANCES = {"deleted": "false", "include_clustered"',
        '_INSTANCES = {"include_clustered"',
        CALLS,
    ),
    Mutation(
        "The instances of clusters are not listed",
        f"{PLUGINS}database/common.py",
        '"include_clustered": "true", ',
        "",
        CALLS,
    ),
    Mutation(
        "The second page of a list of Octavia has what every project owns",
        f"{PLUGINS}calls.py",
        "query = {**query, **_parameters(link, own)}",
        "query = {**_parameters(link, own)}",
        CALLS,
    ),
    Mutation(
        "Zones are listed for the orchestrator's own project",
        f"{PLUGINS}dns/common.py",
        'SUDO = {"X-Auth-Sudo-Project-ID": "{project_id}", **WITHOUT_COUNTS}',
        "SUDO = {**WITHOUT_COUNTS}",
        CALLS,
    ),
    Mutation(
        "Zun lists the containers of the orchestrator's own project",
        f"{PLUGINS}application_container.py",
        '_ALL = {"all_projects": "true"}',
        "_ALL: dict[str, str] = {}",
        CALLS,
    ),
    Mutation(
        "Child nodes that the project leases are not listed",
        f"{PLUGINS}baremetal.py",
        'fields=fields, include_children="true", **query)',
        "fields=fields, **query)",
        CALLS,
    ),
    Mutation(
        "Secrets after the first hundred are not listed",
        f"{PLUGINS}key_manager/__init__.py",
        "paging=Paging.OFFSET, limit=100)",
        "query={'limit': 100, 'offset': 0})",
        CALLS,
    ),
    Mutation(
        "CloudKitty lists the prices of every project",
        f"{PLUGINS}rating.py",
        'mine = {"tenant_id": project.id, "filter_tenant": "true"}',
        'mine = {"tenant_id": project.id}',
        CALLS,
    ),
    Mutation(
        "Local IPs count as absent from a Neutron that has them",
        f"{NETWORK}ports.py",
        'available=extension("local_ip"),',
        'available=extension("local-ip"),',
        CALLS,
    ),
    Mutation(
        "Mistral's event triggers are those of the token's project",
        f"{PLUGINS}workflow/executions.py",
        "list=EVENT_TRIGGERS.all",
        "list=EVENT_TRIGGERS.where()",
        CALLS,
    ),
    Mutation(
        "Queues are listed and deleted in the orchestrator's own project",
        f"{PLUGINS}message.py",
        '        token=Token.PROJECT,\n        after=("subscription",),',
        '        after=("subscription",),',
        CALLS,
    ),
    # -------------------------------------------------------- deletes that do nothing, too little, or another thing
    Mutation(
        "A load balancer is deleted without its listeners",
        OCTAVIA,
        ', method="DELETE", query={"cascade": "true"}),',
        ', method="DELETE"),',
        CALLS,
    ),
    Mutation(
        "A share in a group is deleted without the id of the group",
        SHARES,
        'query = {"share_group_id": str(group)} if group else {}',
        "query: dict[str, str] = {}",
        CALLS,
    ),
    Mutation(
        "Servers are only soft-deleted",
        f"{PLUGINS}compute/servers.py",
        '{"forceDelete": None}',
        '{"softDelete": None}',
        CALLS,
        times=2,
    ),
    Mutation(
        "A group of volumes is deleted without its volumes",
        f"{VOLUMES}groups.py",
        'body={"delete": {"delete-volumes": True}}',
        'body={"delete": {"delete-volumes": False}}',
        CALLS,
    ),
    Mutation(
        "A volume is deleted with the snapshots of every project",
        f"{VOLUMES}volumes.py",
        "    try:\n        VOLUMES.delete.call(",
        '    try:\n        VOLUMES.call("/{id}", method="DELETE", query={"cascade": "true"}).call(',
        CALLS,
    ),
    Mutation(
        "The strategy of one instance takes that of the project with it",
        f"{PLUGINS}database/backups.py",
        '({} if strategy.id == "project" else {"instance_id": "{id}"})',
        "{}",
        CALLS,
    ),
    Mutation(
        "Freezer is asked to delete a client by another id, and answers with a success",
        f"{PLUGINS}backup.py",
        "{row[client_id]}",
        "{id}",
        CALLS,
    ),
    Mutation(
        "An execution that runs is not deleted",
        f"{PLUGINS}workflow/executions.py",
        'method="DELETE", query={"force": "true"}),',
        'method="DELETE"),',
        CALLS,
    ),
    Mutation(
        "A container of Zun that runs is not stopped before its delete",
        f"{PLUGINS}application_container.py",
        'query={"stop": "true"}',
        "query={}",
        CALLS,
    ),
    Mutation(
        "All accelerator requests are asked for in place of one",
        f"{PLUGINS}accelerator.py",
        '"/accelerator_requests?arqs={id}"',
        '"/accelerator_requests?arqs="',
        CALLS,
    ),
    Mutation(
        "The quota of a share type takes the whole quota of the project with it",
        f"{PLUGINS}shared_file_system/settings.py",
        ', method="DELETE", query={"share_type": "{id}"}),',
        ', method="DELETE"),',
        CALLS,
    ),
    Mutation(
        "A stack is deleted with an admin's token",
        f"{PLUGINS}orchestration/stacks.py",
        "        user_content=_TEMPLATE,\n",
        "",
        CALLS,
    ),
)
