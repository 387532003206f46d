"""Defects in the plugins: comparisons of the owner, owner filters, protections, what is refused for others' sake."""

from tests.mutants.mutation import Mutation, tests

PLUGINS = "cleanup_orchestrator/plugins/"
VERDICTS = f"{PLUGINS}verdicts.py"
IMAGE = f"{PLUGINS}image.py"
NETWORK = f"{PLUGINS}network/"
DNS = f"{PLUGINS}dns/"
COMPUTE = f"{PLUGINS}compute/"
VOLUMES = f"{PLUGINS}block_storage/"
SHARES = f"{PLUGINS}shared_file_system/"
HEAT = f"{PLUGINS}orchestration/"
IDENTITY = f"{PLUGINS}identity.py"
SWIFT = f"{PLUGINS}object_store/"
MAGNUM = f"{PLUGINS}container_infrastructure_management.py"

OWNERS = tests("plugins/owner_checks")

MUTATIONS = (
    # ------------------------------------------------------------------------------------------------------- image
    Mutation(
        "Metadef namespaces of every project are listed",
        IMAGE,
        'if row.get("owner") == project.id:\n            yield row',
        'if row.get("owner"):\n            yield row',
        OWNERS,
    ),
    Mutation(
        "Metadef namespaces of the other projects are listed",
        IMAGE,
        'if row.get("owner") == project.id:\n            yield row',
        'if row.get("owner") != project.id:\n            yield row',
        OWNERS,
    ),
    Mutation(
        "Members of the project's own images are listed as memberships",
        IMAGE,
        'if image.get("owner") == project.id:\n                continue',
        'if image.get("owner") is None:\n                continue',
        OWNERS,
    ),
    Mutation(
        "Memberships of other projects are listed",
        IMAGE,
        'if member["member_id"] == project.id:\n                    yield',
        'if member["member_id"]:\n                    yield',
        OWNERS,
    ),
    Mutation(
        "An image that is shared with another project is deleted",
        IMAGE,
        'if member["member_id"] != project.id and member["status"] != "rejected"',
        'if member["member_id"] == project.id and member["status"] != "rejected"',
        tests("plugins/protected"),
    ),
    Mutation(
        "An image that is shared with a project that has not answered yet is deleted",
        IMAGE,
        'if member["member_id"] != project.id and member["status"] != "rejected"',
        'if member["member_id"] != project.id and member["status"] == "accepted"',
        tests("plugins/protected"),
    ),
    Mutation(
        "Images are listed without the owner filter",
        IMAGE,
        '{"owner": project.id, "visibility": "all", "os_hidden": hidden}',
        '{"visibility": "all", "os_hidden": hidden}',
        OWNERS,
    ),
    Mutation(
        "Hidden images are not listed",
        IMAGE,
        "def _images(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:\n"
        '    """Yield the project\'s images, hidden ones included."""\n'
        '    for hidden in ("false", "true"):',
        "def _images(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:\n"
        '    """Yield the project\'s images, hidden ones included."""\n'
        '    for hidden in ("false",):',
        OWNERS,
    ),
    Mutation(
        "A public image is deleted",
        IMAGE,
        'if visibility in ("private", "shared"):  # whether',
        'if visibility in ("private", "shared", "public"):  # whether',
        tests("plugins/protected"),
    ),
    Mutation(
        "The namespace's owner is given up with its protection",
        IMAGE,
        'kept = ("namespace", "display_name", "description", "visibility", "owner")',
        'kept = ("namespace", "display_name", "description", "visibility")',
        OWNERS,
    ),
    # ----------------------------------------------------------------------------------------------------- network
    Mutation(
        "What belongs to others is not in the way of a delete in Neutron",
        VERDICTS,
        'refuse(verdict_naming(project, what, [b for b in blockers if b["owner"] != project.id]))',
        'refuse(verdict_naming(project, what, [b for b in blockers if b["owner"] == ""]))',
        OWNERS,
    ),
    Mutation(
        "What is the project's own is in the way of a delete in Neutron",
        VERDICTS,
        'refuse(verdict_naming(project, what, [b for b in blockers if b["owner"] != project.id]))',
        "refuse(verdict_naming(project, what, [b for b in blockers]))",
        OWNERS,
    ),
    Mutation(
        "Router interfaces of other projects are removed",
        f"{NETWORK}routers.py",
        "        if owner_of(port) == project.id:\n            try:",
        "        if owner_of(port):\n            try:",
        OWNERS,
    ),
    Mutation(
        "Router interfaces of the project are not removed",
        f"{NETWORK}routers.py",
        "        if owner_of(port) == project.id:\n            try:",
        "        if owner_of(port) != project.id:\n            try:",
        OWNERS,
    ),
    Mutation(
        "Conntrack helpers of other projects' routers are listed",
        f"{NETWORK}routers.py",
        "        if owner_of(router) == project.id:\n",
        "        if owner_of(router):\n",
        OWNERS,
    ),
    Mutation(
        "Port forwardings of other projects' floating IPs are listed",
        f"{NETWORK}routers.py",
        'if owner_of(ip) == project.id and not ip.get("port_id"):',
        'if not ip.get("port_id"):',
        OWNERS,
    ),
    Mutation(
        "Security group rules of other projects are deleted",
        f"{NETWORK}security.py",
        'if r.get("remote_address_group_id") == resource.id and owner_of(r) == project.id]',
        'if r.get("remote_address_group_id") == resource.id]',
        OWNERS,
    ),
    Mutation(
        "Rules that name another address group are deleted",
        f"{NETWORK}security.py",
        'if r.get("remote_address_group_id") == resource.id and owner_of(r) == project.id]',
        "if owner_of(r) == project.id]",
        OWNERS,
    ),
    Mutation(
        "A port forwarding's owner is not read again",
        f"{NETWORK}routers.py",
        'return {**resource.data, "project_id": owner_of(ip)}',
        'return {**resource.data, "project_id": project.id}',
        OWNERS,
    ),
    Mutation(
        "Subnets that others have on a network go with it",
        f"{NETWORK}networks.py",
        '    refuse_foreign(project, "deleting it would delete", blockers)\n\n\ndef explain_network',
        "\n\ndef explain_network",
        OWNERS,
    ),
    Mutation(
        "A subnet with ports of others is deleted",
        f"{NETWORK}networks.py",
        "    refuse(verdict_naming(project, _ADDRESSES, blockers))\n",
        "",
        OWNERS,
    ),
    Mutation(
        "A plan counts the project's own ports as use by others",
        "cleanup_orchestrator/plugins/verdicts.py",
        "if verdict is not None and verdict.reason in _OF_OTHERS:",
        "if verdict is not None:",
        tests("plugins/foreseen"),
    ),
    Mutation(
        "A plan takes the ports of amphorae for another project's",
        f"{NETWORK}common.py",
        "if _is_of_service(connection, port, ask_nova=staying < MOST_BLOCKERS):",
        "if False:",
        tests("plugins/foreseen"),
    ),
    Mutation(
        "A plan foresees no use by other projects",
        "cleanup_orchestrator/worker/steps/sweep.py",
        "find_users=self.deletion.dry_run or self.step.name in",
        "find_users=self.step.name in",
        tests("functional/test_foreseen"),
    ),
    Mutation(
        "A security group that others' rules name is deleted",
        f"{NETWORK}security.py",
        'blockers = [row_blocker("security_group_rule", r) for r in rules if r.get("remote_group_id") == resource.id]\n'
        '    refuse_foreign(project, "deleting it would delete", blockers)',
        'blockers = [row_blocker("security_group_rule", r) for r in rules if r.get("remote_group_id") == resource.id]',
        OWNERS,
    ),
    Mutation(
        "Declared lists of Neutron carry no owner filter",
        f"{NETWORK}common.py",
        'declared.setdefault("list", Sdk("network", plural, project_id="{project_id}"))',
        'declared.setdefault("list", Sdk("network", plural))',
        tests("plugins/conformance"),
    ),
    Mutation(
        "Listing creates the default group of the project under deletion",
        f"{NETWORK}common.py",
        "return [str(own), project.id]",
        "return [project.id, str(own)]",
        OWNERS,
    ),
    Mutation(
        "A network that is shared with all projects is deleted",
        f"{NETWORK}common.py",
        'if is_shared(resource.data) and not project.options.get("delete_shared"):',
        "if False:",
        tests("plugins/protected"),
    ),
    Mutation(
        "An external network is deleted",
        f"{NETWORK}networks.py",
        'if resource.data.get("is_router_external") and not project.options.get("delete_external"):',
        "if False:",
        tests("plugins/protected"),
    ),
    Mutation(
        "Neutron's own ports on other projects' networks count as kept",
        f"{NETWORK}networks.py",
        'row = {**row, _ON_OWN_NETWORK: row.get("network_id") in own_networks}',
        "row = {**row, _ON_OWN_NETWORK: True}",
        OWNERS,
    ),
    # --------------------------------------------------------------------------------------------------------- dns
    Mutation(
        "Zones of other projects count as the project's own",
        f"{DNS}common.py",
        "for zone in ZONES.rows(connection, project) if owner_of(zone) == project.id}",
        "for zone in ZONES.rows(connection, project) if owner_of(zone)}",
        OWNERS,
    ),
    Mutation(
        "Recordsets of others in a zone of the project go with it",
        f"{DNS}zones.py",
        'if owner_of(row) not in ("", project.id):\n            yield row',
        'if owner_of(row) in ("", project.id):\n            yield row',
        OWNERS,
    ),
    Mutation(
        "Zones of others below a zone of the project are not in the way",
        f"{DNS}zones.py",
        '"have zones below it", (b for b in below if b["owner"] != project.id))\n    if verdict is None',
        '"have zones below it", (b for b in below if b["owner"] == "nobody"))\n    if verdict is None',
        OWNERS,
    ),
    Mutation(
        "The project's own zones below a zone are in the way",
        f"{DNS}zones.py",
        '"have zones below it", (b for b in below if b["owner"] != project.id))\n    if verdict is None',
        '"have zones below it", below)\n    if verdict is None',
        OWNERS,
    ),
    Mutation(
        "The record of an address that changed hands is deleted",
        f"{DNS}records.py",
        'if (holder := _holder(connection, recordset.data)) not in ("", project.id):',
        'if (holder := _holder(connection, recordset.data)) in ("nobody",):',
        OWNERS,
    ),
    Mutation(
        "The record of an address that changed hands is listed as the project's",
        f"{DNS}records.py",
        'if holder not in (None, "", project.id)',
        'if holder in ("nobody",)',
        OWNERS,
    ),
    Mutation(
        "Recordsets of the project in zones of its own are listed",
        f"{DNS}records.py",
        'if str(row.get("zone_id")) not in own:',
        "if True:",
        OWNERS,
    ),
    Mutation(
        "The shares of the project's own zones are taken back as others'",
        f"{DNS}zones.py",
        '        if owner_of(zone) not in ("", project.id):\n            path',
        "        if owner_of(zone):\n            path",
        OWNERS,
    ),
    Mutation(
        "TSIG keys of zones of other projects are listed",
        f"{DNS}zones.py",
        'if key.get("scope") == "ZONE" and (zone := own.get(str(key.get("resource_id")))):',
        'if zone := own.get(str(key.get("resource_id")), {"project_id": project.id}):',
        OWNERS,
    ),
    # ------------------------------------------------------------------------------------------------------ others
    Mutation(
        "A list of servers with another project's server in it is believed",
        f"{COMPUTE}servers.py",
        'if row.get("tenant_id") not in (None, "", project.id):',
        "if False:",
        OWNERS,
    ),
    Mutation(
        "Servers of other projects in cells that do not answer are listed",
        f"{COMPUTE}servers.py",
        '            if server.get("tenant_id") == project.id:\n                yield server',
        "            if True:\n                yield server",
        tests("plugins/gone"),
    ),
    Mutation(
        "A list that is another project's shows the servers of cells that do not answer",
        f"{COMPUTE}servers.py",
        "        if scope != project.id:\n            raise BadAnswer(",
        "        if False:\n            raise BadAnswer(",
        OWNERS,
    ),
    Mutation(
        "Flavor access of other projects is listed",
        f"{COMPUTE}settings.py",
        'if row.get("tenant_id") == project.id:\n                yield {**row, "name": flavor.get("name")}',
        'if row.get("tenant_id"):\n                yield {**row, "name": flavor.get("name")}',
        OWNERS,
    ),
    Mutation(
        "Volumes of others go with a group of the project",
        f"{VOLUMES}groups.py",
        "foreign = [v for v in volumes if v.get(VOLUME_OWNER) != project.id]",
        "foreign = []",
        OWNERS,
    ),
    Mutation(
        "Attachments of other projects' volumes are the project's",
        f"{VOLUMES}volumes.py",
        'owner = project.id if mine else _volume_owner(connection, project, row.get("volume_id"))',
        "owner = project.id",
        OWNERS,
    ),
    Mutation(
        "A list of Cinder with a token of another project is believed",
        f"{VOLUMES}common.py",
        "    if scope != project.id:\n        raise BadAnswer(",
        "    if False:\n        raise BadAnswer(",
        OWNERS,
    ),
    Mutation(
        "Volume type access of other projects is listed",
        f"{VOLUMES}settings.py",
        'if row.get("project_id") == project.id:\n                yield {**row, "name": type_.get("name")}',
        'if row.get("project_id"):\n                yield {**row, "name": type_.get("name")}',
        OWNERS,
    ),
    Mutation(
        "Replicas and backups of other projects' shares are listed",
        f"{SHARES}shares.py",
        "return (row for row in _shares(connection, project) if owner_of(row) == project.id)",
        "return (row for row in _shares(connection, project))",
        OWNERS,
    ),
    Mutation(
        "Share type access of other projects is listed",
        f"{SHARES}settings.py",
        'if entry.get("project_id") == project.id:',
        'if entry.get("project_id"):',
        OWNERS,
    ),
    Mutation(
        "A stack of a project that is gone is abandoned while Heat works on it",
        f"{HEAT}stacks.py",
        '        if stack.data.get("stack_status") == DELETING:\n            _clear_hooks',
        "        if False:\n            _clear_hooks",
        tests("plugins/orchestration"),
    ),
    Mutation(
        "An admin's token is used where an image's locations say",
        f"{PLUGINS}image.py",
        "    if not project.gone:\n        return\n    current",
        "    if True:\n        return\n    current",
        tests("plugins/owner_checks"),
    ),
    Mutation(
        "Deployments of other projects' configs are listed",
        f"{HEAT}configs.py",
        'if row.get("project") == project.id}\n    if configs',
        'if row.get("project")}\n    if configs',
        OWNERS,
    ),
    Mutation(
        "Trusts of other projects are deleted with a stack",
        f"{HEAT}stacks.py",
        'here = [row for row in trusts if row.get("project_id") == project.id]',
        "here = list(trusts)",
        OWNERS,
    ),
    Mutation(
        "A deployment to another project's server is deleted",
        f"{HEAT}configs.py",
        "    if owner != project.id:\n        foreign",
        "    if False:\n        foreign",
        OWNERS,
    ),
    Mutation(
        "Credentials of users in other projects are listed",
        IDENTITY,
        '                if row.get("project_id") == project.id:\n                    yield {**row, "user_id": user}',
        '                if row.get("project_id"):\n                    yield {**row, "user_id": user}',
        OWNERS,
    ),
    Mutation(
        "Users whose default project is another one are listed",
        IDENTITY,
        'if user.get("default_project_id") == project.id:',
        'if user.get("default_project_id"):',
        OWNERS,
    ),
    Mutation(
        "What others have in Keystone is listed",
        IDENTITY,
        '            if row.get("project_id") == project.id:\n                yield row',
        '            if row.get("project_id"):\n                yield row',
        OWNERS,
    ),
    Mutation(
        "The account of another project is emptied",
        f"{SWIFT}common.py",
        "    if account.endswith(project.id):\n        return url",
        "    if account:\n        return url",
        OWNERS,
    ),
    Mutation(
        "An account is emptied with a token of another project",
        f"{SWIFT}common.py",
        "    if scope != project.id:\n        raise BadAnswer(",
        "    if False:\n        raise BadAnswer(",
        OWNERS,
    ),
    Mutation(
        "A public cluster template is deleted",
        MAGNUM,
        'if template.data.get("public") is False or',
        "if True or",
        OWNERS,
    ),
    # ------------------------------------------------------------------------------------------------------- sizes
    Mutation(
        "A size that the database cannot hold is reported",
        f"{PLUGINS}values.py",
        "return found if number >= 0 and found <= MOST_BYTES else None",
        "return found if number >= 0 else None",
        tests("plugins/size"),
    ),
    Mutation(
        "A size that cannot be read makes the list of its type unknown",
        f"{PLUGINS}contract.py",
        "        except Exception:\n            return None",
        "        except KeyError:\n            return None",
        tests("worker/sweep_sizes plugins/size"),
    ),
)
