"""Defects in the hooks of plugins: what is another project's, what counts as gone, and what is deleted with it."""

from tests.mutants.mutation import Mutation, tests

PLUGINS = "cleanup_orchestrator/plugins/"
NETWORK = f"{PLUGINS}network/"
VOLUMES = f"{PLUGINS}block_storage/"
SHARES = f"{PLUGINS}shared_file_system/"
HEAT = f"{PLUGINS}orchestration/"
TROVE = f"{PLUGINS}database/"
SWIFT = f"{PLUGINS}object_store/"
MISTRAL = f"{PLUGINS}workflow/"

MUTATIONS = (
    # ------------------------------------------------------------------------------------------------------- Cinder
    Mutation(
        "A snapshot whose delete Cinder takes back counts as being deleted",
        f"{VOLUMES}volumes.py",
        'if snapshot.data.get("status") == "available" and not snapshot.data.get(_CLONED):',
        "if False:",
        tests("plugins/block_storage"),
    ),
    Mutation(
        "A snapshot that waits for a volume of the project counts as failed",
        f"{VOLUMES}volumes.py",
        " and not snapshot.data.get(_CLONED):",
        ":",
        tests("plugins/block_storage"),
    ),
    # --------------------------------------------------------------------------------------------- Ceph Object Gateway
    Mutation(
        "A container with old versions that only S3 shows is said to be about to become empty",
        f"{SWIFT}containers.py",
        "        raise Refused(_unseen(container))",
        '        raise Refused(Verdict(Reason.IN_USE, "emptied, but not empty yet"))',
        tests("plugins/object_store"),
    ),
    # ---------------------------------------------------------------------------------------------------------- Zun
    Mutation(
        "The host of a container gets an admin's token once the project is gone",
        f"{PLUGINS}application_container.py",
        'if project.gone and resource.data.get("host"):',
        'if project.gone and not resource.data.get("host"):',
        tests("plugins/application_container"),
    ),
    # ------------------------------------------------------------------------------------------------------- Ironic
    Mutation(
        "A node is undeployed with the allocation of another project",
        f"{PLUGINS}baremetal.py",
        'Use((f"{TYPE}.allocation",), "undeploys the node of the allocation", _on_node(_allocation_of_others)),\n',
        "",
        tests("plugins/baremetal"),
    ),
    Mutation(
        "A node is undeployed under a server of Nova",
        f"{PLUGINS}baremetal.py",
        'Use(("compute.server",), "undeploys the node of the server", _on_node(_server_on)),\n',
        "",
        tests("plugins/baremetal"),
    ),
    Mutation(
        "A lease ends while an instance is deployed",
        f"{PLUGINS}baremetal.py",
        "node = _NODES.show.row(connection, project, lease)\n    if _deployed(node):",
        "node = _NODES.show.row(connection, project, lease)\n    if False:",
        tests("plugins/baremetal"),
    ),
    Mutation(
        "A node in a state that is not known has no instance",
        f"{PLUGINS}baremetal.py",
        'return row.get("provision_state") not in _WITHOUT_INSTANCE',
        'return row.get("provision_state") in ("active", "deploying", "deploy failed", "error", "deleting")',
        tests("plugins/baremetal"),
    ),
    Mutation(
        "A runbook that does not show whether it is public is deleted",
        f"{PLUGINS}baremetal.py",
        'if runbook.data.get("public") is False:',
        'if not runbook.data.get("public"):',
        tests("plugins/baremetal"),
    ),
    Mutation(
        "A node is no longer protected as hardware",
        f"{PLUGINS}baremetal.py",
        "            protect=(_protect_hardware,),\n",
        "",
        tests("plugins/protected"),
    ),
    # ------------------------------------------------------------------------------------------------------- Cinder
    Mutation(
        "A backup is deleted under the increments of others",
        f"{VOLUMES}backups.py",
        "refuse(_increments(connection, project, backup))\n    try:\n        _make_backup_deletable",
        "try:\n        _make_backup_deletable",
        tests("plugins/block_storage"),
    ),
    Mutation(
        "Increments of other projects do not count for a backup",
        f"{VOLUMES}backups.py",
        'if row["id"] != backup.id\n',
        'if row["id"] != backup.id and row.get(_BACKUP_PROJECT) == project.id\n',
        tests("plugins/block_storage plugins/uses plugins/foreseen"),
    ),
    Mutation(
        "Backups are listed with the token of another project",
        f"{VOLUMES}backups.py",
        "check_scope(connection, project)\n    without_base",
        "without_base",
        tests("plugins/block_storage plugins/network"),
    ),
    Mutation(
        "A volume is forced off the server that has it",
        f"{VOLUMES}volumes.py",
        'refuse(verdict_naming(project, "it is attached to", servers))',
        "servers.clear()",
        tests("plugins/block_storage"),
    ),
    # --------------------------------------------------------------------------------------------------------- Nova
    Mutation(
        "Server groups count as listed although the caller is no admin",
        f"{PLUGINS}compute/groups.py",
        'Rest("compute", "/servers", key="servers", query={**OF_PROJECT, "limit": 1}).call(connection, project)',
        "",
        tests("plugins/compute plugins/literal_calls"),
    ),
    Mutation(
        "A gap in the list of server groups is not noticed",
        f"{PLUGINS}compute/groups.py",
        'if offset and (not page or page[0]["id"] not in seen):',
        "if offset and not page:",
        tests("plugins/compute"),
    ),
    # -------------------------------------------------------------------------------------------------- conformance
    Mutation(
        "A list without an owner filter keeps the contract",
        f"{PLUGINS}conformance.py",
        "if type_.owner != SCOPED and not type_.unfiltered:",
        "if type_.owner == SCOPED and not type_.unfiltered:",
        tests("plugins/conformance"),
    ),
    Mutation(
        "Rows without an owner may be listed with an admin's token",
        f"{PLUGINS}conformance.py",
        "if type_.owner == SCOPED and type_.token is Token.ADMIN:",
        "if type_.owner == SCOPED and type_.token is Token.MEMBER:",
        tests("plugins/conformance"),
    ),
    Mutation(
        "A type that is deleted without being read again keeps the contract",
        f"{PLUGINS}conformance.py",
        "type_.show is None and not type_.fresh:",
        "type_.show is None and type_.fresh:",
        tests("plugins/conformance"),
    ),
    # -------------------------------------------------------------------------------------------------------- Trove
    Mutation(
        "A backup is deleted with the increments of other projects",
        f"{TROVE}backups.py",
        "        if base in asked\n",
        '        if base in asked and row.get("project_id") == project.id\n',
        tests("plugins/database plugins/uses plugins/foreseen"),
    ),
    Mutation(
        "A backup of a project that is gone is deleted in the orchestrator's own account",
        f"{TROVE}backups.py",
        'if project.gone:\n        text = (\n            "the project is gone, and with',
        'if not project.gone:\n        text = (\n            "the project is gone, and with',
        tests("plugins/database plugins/gone"),
    ),
    Mutation(
        "A part of a list of Trove counts as the whole",
        f"{TROVE}common.py",
        'if body.get("links"):',
        'if body.get("next"):',
        tests("plugins/database"),
    ),
    Mutation(
        "What Trove does with instances of other projects is ended",
        f"{TROVE}common.py",
        'if row.get("tenant_id") == project.id]',
        'if row.get("tenant_id")]',
        tests("plugins/database"),
    ),
    Mutation(
        "The guest agents of a cluster get an admin's token",
        f"{TROVE}instances.py",
        "if project.gone:\n        refuse_guests(connection, project, _members(",
        "if not project.gone:\n        refuse_guests(connection, project, _members(",
        tests("plugins/database plugins/gone"),
    ),
    Mutation(
        "An instance of a project that is gone is deleted by its id alone",
        f"{TROVE}instances.py",
        "        if not rows:\n            raise exceptions.failure(",
        "        if rows is None:\n            raise exceptions.failure(",
        tests("plugins/database plugins/gone"),
    ),
    # ------------------------------------------------------------------------------------------------------ endings
    Mutation(
        "A name that another project chose is part of the command that ends a use",
        f"{PLUGINS}endings.py",
        "return shlex.quote(str(value))",
        "return str(value)",
        tests("plugins/endings"),
    ),
    Mutation(
        "A person is told to end what the project itself uses",
        f"{PLUGINS}endings.py",
        'if user.get("owner") == project_id:\n            continue',
        'if user.get("owner") == used:\n            continue',
        tests("plugins/endings"),
    ),
    # ------------------------------------------------------------------------------------------------------- Glance
    Mutation(
        "The second page of a list of Glance has the images of all projects",
        f"{PLUGINS}glance.py",
        'params={**query, "limit": PAGE, **marker}',
        'params={"limit": PAGE, **(marker or query)}',
        tests("plugins/literal_calls"),
    ),
    Mutation(
        "Hidden images of others use no secret and no kernel",
        f"{PLUGINS}glance.py",
        'for hidden in ("false", "true"):\n        for row in list_pages(',
        'for hidden in ("false",):\n        for row in list_pages(',
        tests("plugins/uses"),
    ),
    Mutation(
        "The cluster templates of others do not count for their image",
        f"{PLUGINS}image/uses.py",
        'if row.get("image_id") in asked\n',
        'if row.get("image_id") in asked and row.get("project_id") == project.id\n',
        tests("plugins/uses"),
    ),
    Mutation(
        "Only kernels in one format count for the images that name them",
        f"{PLUGINS}image/uses.py",
        '_KERNELS = frozenset({"aki", "ari", "raw"})',
        '_KERNELS = frozenset({"aki", "ari"})',
        tests("plugins/uses"),
    ),
    # ----------------------------------------------------------------------------------------------------- Barbican
    Mutation(
        "A volume that Cinder does not show needs no key",
        f"{PLUGINS}key_manager/needs.py",
        "if unknown or resource.id in held:\n                return unknown",
        "if resource.id in held:\n                return None",
        tests("plugins/key_manager"),
    ),
    Mutation(
        "The load balancers that are left need no certificate if Octavia does not show them",
        f"{PLUGINS}key_manager/needs.py",
        "except exceptions.ForbiddenException:\n        return lambda _resource: min(left)",
        "except exceptions.ForbiddenException:\n        return lambda _resource: None",
        tests("plugins/needs"),
    ),
    # ------------------------------------------------------------------------------------------------------ Octavia
    Mutation(
        "Additional addresses of a load balancer do not count for the projects that use them",
        f"{PLUGINS}load_balancer.py",
        'or ""), *more), balancer.id)',
        'or ""),), balancer.id)',
        tests("plugins/load_balancer plugins/uses"),
    ),
    Mutation(
        "A load balancer that Octavia changes is not waited for",
        f"{PLUGINS}load_balancer.py",
        'if status.startswith("PENDING_"):',
        'if status == "PENDING_CREATE":',
        tests("plugins/load_balancer plugins/shared_file_system"),
    ),
    # -------------------------------------------------------------------------------------------------------- Zaqar
    Mutation(
        "A store of Zaqar that fails has no topics",
        f"{PLUGINS}message.py",
        "if error.status_code != 503:\n            raise\n",
        "if error.status_code != 503:\n            raise\n        return\n",
        tests("plugins/message"),
    ),
    Mutation(
        "The subscriptions of topics are not listed",
        f"{PLUGINS}message.py",
        '("topics", _topics(connection, project) if _has_topics(connection, project) else ()),',
        "",
        tests("plugins/message plugins/literal_calls"),
    ),
    # ------------------------------------------------------------------------------------------------------ Gnocchi
    Mutation(
        "A resource belongs to the project that made it, and not to the one that it names",
        f"{PLUGINS}metric.py",
        '"owner": row["project_id"] or row["created_by_project_id"]',
        '"owner": row["created_by_project_id"] or row["project_id"]',
        tests("plugins/metric"),
    ),
    Mutation(
        "The list of metrics ends at the first one of a resource, wherever that is",
        f"{PLUGINS}metric.py",
        'sort="resource_id:asc-nullsfirst"',
        'sort="resource_id:asc"',
        tests("plugins/metric plugins/literal_calls"),
    ),
    # ------------------------------------------------------------------------------------------------------ Neutron
    Mutation(
        "A BGP VPN is deleted with the associations of others",
        f"{NETWORK}bgp.py",
        'refuse_foreign(project, "deleting it would delete", blockers)',
        'refuse_foreign(project, "deleting it would delete", blockers[:0])',
        tests("plugins/network_addons"),
    ),
    Mutation(
        "The associations of a VPN that does not count them are not listed",
        f"{NETWORK}bgp.py",
        'if bgpvpn.get(f"{kind}s") == []:',
        'if not bgpvpn.get(f"{kind}s"):',
        tests("plugins/literal_calls"),
    ),
    Mutation(
        "A VPN is taken from another project's network",
        f"{NETWORK}bgp.py",
        'return verdict_naming(project, "it is of", [row_blocker(kind, r) for r in found if owner_of(r) != project.id])',
        "return None",
        tests("plugins/network_addons"),
    ),
    Mutation(
        "A port is deleted although a flow of another project mirrors it",
        f"{NETWORK}chaining.py",
        'rows_naming(connection, project, resource, "tap_flows", "source_port")',
        'rows_naming(connection, project, resource, "tap_flows", "tap_service_id")',
        tests("plugins/network plugins/network_addons plugins/uses"),
    ),
    Mutation(
        "A service graph is deleted although it joins chains of others",
        f"{NETWORK}chaining.py",
        "joined = {*graph, *(chain for some in graph.values() for chain in some)}",
        "joined = set(graph)",
        tests("plugins/network plugins/network_addons plugins/uses"),
    ),
    Mutation(
        "A tap service is deleted under the flows of others",
        f"{NETWORK}chaining.py",
        'refuse_foreign(project, "it is used by", [row_blocker("tap_flow", flow) for flow in flows])',
        "pass",
        tests("plugins/network_addons"),
    ),
    Mutation(
        "The port of a trunk loses its host although a server has it",
        f"{NETWORK}trunks.py",
        'and server_blocker(connection, port["device_id"]) is None',
        'and server_blocker(connection, port["device_id"]) is not None',
        tests("plugins/network"),
    ),
    Mutation(
        "The port of another project loses its host for a trunk",
        f"{NETWORK}trunks.py",
        "if owner_of(port) != project.id:\n        return False",
        "if not owner_of(port):\n        return False",
        tests("plugins/network"),
    ),
    # ------------------------------------------------------------------------------------------------------- Tacker
    Mutation(
        "VNF instances are the project's although Tacker ignores the filter",
        f"{PLUGINS}nfv_orchestration.py",
        "if any(True for _ in _INSTANCES.where(**_of(NOTHING)).rows(connection, project)):",
        "if not any(True for _ in ((),)):",
        tests("plugins/nfv_orchestration"),
    ),
    Mutation(
        "The packages of all projects are the project's",
        f"{PLUGINS}nfv_orchestration.py",
        '        _expect_member(connection, "VNF packages")\n',
        "",
        tests("plugins/nfv_orchestration"),
    ),
    # -------------------------------------------------------------------------------------------------------- Swift
    Mutation(
        "An account that Swift does not show has no metadata",
        f"{SWIFT}accounts.py",
        "raise UnreadableName(UNREADABLE) from error\n        raise\n    names",
        "raise UnreadableName(UNREADABLE) from error\n        headers = None\n    names",
        tests("plugins/object_store plugins/shared_file_system"),
    ),
    Mutation(
        "An account that Swift does not show has no containers",
        f"{SWIFT}containers.py",
        "if error.status_code != 410:  # Gone",
        "if error.status_code not in (403, 410):  # Gone",
        tests("plugins/object_store plugins/shared_file_system"),
    ),
    Mutation(
        "What a bulk delete refuses counts as deleted",
        f"{SWIFT}containers.py",
        "for name, code in errors:\n            self.fail(name, code)",
        "for name, code in errors[:0]:\n            self.fail(name, code)",
        tests("plugins/shared_file_system plugins/object_store"),
    ),
    Mutation(
        "A container is emptied while others can write into it without a token",
        f"{SWIFT}containers.py",
        'for header in ("X-Versions-Location", "X-History-Location", "X-Container-Sync-To", *_WRITE_HEADERS):',
        'for header in ("X-Versions-Location", "X-History-Location", "X-Container-Sync-To"):',
        tests("plugins/object_store plugins/literal_calls plugins/shared_file_system"),
    ),
    # --------------------------------------------------------------------------------------------------------- Heat
    Mutation(
        "Stacks whose root is gone are not listed",
        f"{HEAT}listing.py",
        "if parent is not None:\n            yield",
        "if parent in rows:\n            yield",
        tests("plugins/orchestration plugins/literal_calls"),
    ),
    Mutation(
        "The owner of a stack is read from another one in the list",
        f"{HEAT}listing.py",
        'if row.get("id") == stack.id:\n            found',
        'if row.get("id"):\n            found',
        tests("plugins/orchestration"),
    ),
    Mutation(
        "A Keystone project of another domain counts as made by Heat",
        f"{HEAT}users.py",
        'return bool(named) and row.get("domain_id") == domain_id and',
        "return bool(named) and",
        tests("plugins/orchestration"),
    ),
    Mutation(
        "A user of another project of Heat is deleted",
        f"{HEAT}users.py",
        'row.get("domain_id") == found.data["domain_id"] and row.get("default_project_id") == found.id:',
        'row.get("domain_id") == found.data["domain_id"]:',
        tests("plugins/orchestration"),
    ),
    Mutation(
        "The trusts that other projects gave to Heat are deleted",
        f"{HEAT}stacks.py",
        'here = [row for row in trusts if row.get("project_id") == project.id]',
        'here = [row for row in trusts if row.get("project_id")]',
        tests("plugins/orchestration plugins/network"),
    ),
    # ------------------------------------------------------------------------------------- CloudKitty and Blazar
    Mutation(
        "Any 404 of CloudKitty says that the project has no scope",
        f"{PLUGINS}rating.py",
        "if answer == _NO_SCOPE:",
        'if "results" not in answer:',
        tests("plugins/rating"),
    ),
    Mutation(
        "A lease of another project that was moved here is deleted",
        f"{PLUGINS}reservation.py",
        'if trust["project_id"] != project.id:',
        'if not trust["project_id"]:',
        tests("plugins/reservation"),
    ),
    Mutation(
        "Only the hosts of a lease count for the servers of others",
        f"{PLUGINS}reservation.py",
        'found += foreign_servers(connection, project, flavor=str(each["id"]))',
        "found += ()",
        tests("plugins/reservation"),
    ),
    Mutation(
        "A lease of servers is deleted if it also has addresses",
        f"{PLUGINS}reservation.py",
        'if all(each["resource_type"] == _FLOATING_IP',
        'if any(each["resource_type"] == _FLOATING_IP',
        tests("plugins/reservation"),
    ),
    # ------------------------------------------------------------------------------------------------------ registry
    Mutation(
        "A plugin that does not load is left out",
        f"{PLUGINS}registry.py",
        'raise InvalidPlugin(f"plugin {entry_point.name} does not load: {error}") from error',
        "return",
        tests("plugins/contract"),
    ),
    Mutation(
        "A type may wait for a type that does not exist",
        f"{PLUGINS}registry.py",
        "if before not in known and (other in self.services or not official.is_official(other)):",
        "if before not in known and not official.is_official(other):",
        tests("plugins/conformance plugins/registry"),
    ),
    Mutation(
        "A misspelt type in an option is protected, without any error",
        f"{PLUGINS}registry.py",
        "if unknown := sorted(set(names) - ordinary):",
        "if unknown := sorted(ordinary - ordinary):",
        tests("core/plugin_liens"),
    ),
    Mutation(
        "Project settings do not wait for everything else",
        f"{PLUGINS}registry.py",
        "edges |= ordinary - {name}",
        "edges |= set()",
        tests("plugins/registry"),
    ),
    # ------------------------------------------------------------------------------------------------------- Manila
    Mutation(
        "A change of a share that is in progress is reset to an error",
        f"{SHARES}common.py",
        'if "error" in status and status != "error":',
        'if status not in ("available", "error"):',
        tests("plugins/shared_file_system"),
    ),
    Mutation(
        "A share group is deleted by force with the snapshots in it",
        f"{SHARES}groups.py",
        "refuse(_members(connection, project, group))\n    _force_group",
        "_force_group",
        tests("plugins/shared_file_system"),
    ),
    Mutation(
        "The last subnet of a share network is deleted before it",
        f"{SHARES}groups.py",
        'network.data.get("share_network_subnets") or ())[1:]:',
        'network.data.get("share_network_subnets") or ()):',
        tests("plugins/literal_calls"),
    ),
    Mutation(
        "A migration counts as lost while an instance of it changes",
        f"{SHARES}migrations.py",
        "lost = all(is_past(",
        "lost = any(is_past(",
        tests("plugins/shared_file_system plugins/stale_states"),
    ),
    Mutation(
        "The offer of a share to another project is taken back silently",
        f"{SHARES}migrations.py",
        'refuse(verdict_naming(project, "it is offered by", owners))',
        "owners.clear()",
        tests("plugins/shared_file_system plugins/stale_states"),
    ),
    # ------------------------------------------------------------------------------------------------------ Mistral
    Mutation(
        "A workbook is deleted with the public one of another project",
        f"{MISTRAL}definitions.py",
        'and row.get("scope") != "private"\n',
        'and row.get("scope") not in ("private", "public")\n',
        tests("plugins/workflow plugins/uses"),
    ),
    Mutation(
        "A code source is deleted with the dynamic actions of others",
        f"{MISTRAL}definitions.py",
        "if action.owner != project.id or _protect_public(action, project):",
        "if _protect_public(action, project):",
        tests("plugins/workflow plugins/uses"),
    ),
    Mutation(
        "An action that has ended is cancelled with an admin's token",
        f"{MISTRAL}executions.py",
        'if project.gone:\n        text = (\n            "Mistral deletes an action execution only',
        'if not project.gone:\n        text = (\n            "Mistral deletes an action execution only',
        tests("plugins/workflow plugins/gone plugins/literal_calls"),
    ),
    Mutation(
        "A list of Mistral that is paged by time ends after its first page",
        f"{MISTRAL}listing.py",
        'if not body.get("next"):  # of a full page alone',
        "if body:  # of a full page alone",
        tests("plugins/workflow"),
    ),
    Mutation(
        "A workbook is read again from another project's of the same name",
        f"{MISTRAL}listing.py",
        'return next(row for row in rows if row["id"] == resource.id)',
        "return rows[0]",
        tests("plugins/literal_calls"),
    ),
)
