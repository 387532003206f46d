"""Which attribute of which type has the time of its creation."""

import datetime
import re

import pytest

from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.worker.sweep.selecting import moment

#: By type, in the order of the names. Empty: its service does not show it, or it is a project setting.
CREATED = {
    "accelerator.accelerator_request": "created_at",
    "alarm.alarm": "",
    "alarm.quota": "",
    "application-container.capsule": "created_at",
    "application-container.container": "created_at",
    "application-container.quota": "",
    "application-container.registry": "",
    "backup.action": "",
    "backup.backup": "",
    "backup.client": "",
    "backup.job": "",
    "backup.session": "",
    "baremetal.allocation": "created_at",
    "baremetal.instance": "",
    "baremetal.lease": "",
    "baremetal.node": "",
    "baremetal.runbook": "created_at",
    "block-storage.attachment": "",
    "block-storage.backup": "created_at",
    "block-storage.consistency_group": "created_at",
    "block-storage.consistency_group_snapshot": "created_at",
    "block-storage.default_type": "",
    "block-storage.group": "created_at",
    "block-storage.group_snapshot": "created_at",
    "block-storage.quota_set": "",
    "block-storage.snapshot": "created_at",
    "block-storage.transfer": "created_at",
    "block-storage.type_access": "",
    "block-storage.volume": "created_at",
    "compute.aggregate": "",
    "compute.flavor_access": "",
    "compute.keypair": "",
    "compute.quota_set": "",
    "compute.server": "created",
    "compute.server_group": "",
    "compute.unreachable_server": "created",
    "container-infrastructure-management.cluster": "created_at",
    "container-infrastructure-management.cluster_template": "created_at",
    "container-infrastructure-management.failed_cluster": "created_at",
    "container-infrastructure-management.quota": "",
    "dns.ptr": "",
    "dns.quota": "",
    "dns.recordset": "created_at",
    "dns.tsig_key": "created_at",
    "dns.zone": "created_at",
    "dns.zone_export": "created_at",
    "dns.zone_import": "created_at",
    "dns.zone_share": "",
    "dns.zone_transfer_accept": "created_at",
    "dns.zone_transfer_request": "created_at",
    "identity.application_credential": "",
    "identity.credential": "",
    "identity.default_project_user": "",
    "identity.endpoint_association": "",
    "identity.endpoint_group_association": "",
    "identity.limit": "",
    "identity.oauth1_access_token": "",
    "identity.trust": "",
    "image.image": "created_at",
    "image.membership": "",
    "image.metadef_namespace": "created_at",
    "image.task": "created_at",
    "key-manager.container": "created",
    "key-manager.order": "created",
    "key-manager.project_quota": "",
    "key-manager.secret": "created",
    "load-balancer.health_monitor": "created_at",
    "load-balancer.l7_policy": "created_at",
    "load-balancer.listener": "created_at",
    "load-balancer.load_balancer": "created_at",
    "load-balancer.pool": "created_at",
    "load-balancer.quota": "",
    "message.queue": "",
    "message.subscription": "",
    "message.topic": "",
    "metric.metric": "",
    "metric.resource": "",
    "metric.resource_of_others": "",
    "network.address_group": "created_at",
    "network.address_scope": "",
    "network.bgp_peer": "",
    "network.bgp_speaker": "",
    "network.bgpvpn": "",
    "network.bgpvpn_network_association": "",
    "network.bgpvpn_port_association": "",
    "network.bgpvpn_router_association": "",
    "network.conntrack_helper": "",
    "network.default_firewall_group": "",
    "network.default_firewall_policy": "",
    "network.default_firewall_rule": "",
    "network.default_security_group": "",
    "network.firewall_group": "created_at",
    "network.firewall_policy": "created_at",
    "network.firewall_rule": "created_at",
    "network.floating_ip": "created_at",
    "network.local_ip": "created_at",
    "network.log": "created_at",
    "network.metering_label": "",
    "network.ndp_proxy": "created_at",
    "network.network": "created_at",
    "network.network_segment_range": "",
    "network.port": "created_at",
    "network.port_forwarding": "",
    "network.qos_policy": "created_at",
    "network.quota": "",
    "network.rbac_grant": "",
    "network.rbac_policy": "",
    "network.router": "created_at",
    "network.router_port": "created_at",
    "network.security_group": "created_at",
    "network.security_groups_default_statefulness": "",
    "network.sfc_flow_classifier": "",
    "network.sfc_port_chain": "",
    "network.sfc_port_pair": "",
    "network.sfc_port_pair_group": "",
    "network.sfc_service_graph": "",
    "network.subnet": "created_at",
    "network.subnet_pool": "created_at",
    "network.tap_flow": "",
    "network.tap_mirror": "",
    "network.tap_service": "",
    "network.trunk": "created_at",
    "network.vpn_endpoint_group": "",
    "network.vpn_ike_policy": "",
    "network.vpn_ipsec_policy": "",
    "network.vpn_ipsec_site_connection": "",
    "network.vpn_service": "",
    "nfv-orchestration.subscription": "",
    "nfv-orchestration.vim": "",
    "nfv-orchestration.vnf_instance": "",
    "nfv-orchestration.vnf_instance_v2": "",
    "nfv-orchestration.vnf_package": "",
    "object-store.account": "",
    "object-store.account_metadata": "",
    "object-store.container": "",
    "orchestration.failed_stack": "creation_time",
    "orchestration.nested_stack": "creation_time",
    "orchestration.software_config": "creation_time",
    "orchestration.software_deployment": "creation_time",
    "orchestration.stack": "creation_time",
    "orchestration.stack_user_project": "",
    "placement.usage": "",
    "rating.mapping": "",
    "rating.scope": "",
    "rating.threshold": "",
    "reservation.lease": "created_at",
    "shared-file-system.backup": "created_at",
    "shared-file-system.group_snapshot": "created_at",
    "shared-file-system.group_type_access": "",
    "shared-file-system.quota": "",
    "shared-file-system.replica": "created_at",
    "shared-file-system.resource_lock": "created_at",
    "shared-file-system.security_service": "created_at",
    "shared-file-system.share": "created_at",
    "shared-file-system.share_group": "created_at",
    "shared-file-system.share_network": "created_at",
    "shared-file-system.share_server": "",
    "shared-file-system.snapshot": "created_at",
    "shared-file-system.transfer": "created_at",
    "shared-file-system.type_access": "",
    "shared-file-system.type_quota": "",
    "workflow.action": "created_at",
    "workflow.action_execution": "created_at",
    "workflow.code_source": "created_at",
    "workflow.cron_trigger": "created_at",
    "workflow.dynamic_action": "created_at",
    "workflow.environment": "created_at",
    "workflow.event_trigger": "created_at",
    "workflow.execution": "created_at",
    "workflow.workbook": "created_at",
    "workflow.workflow": "created_at",
}


def test_each_type_declares_what_the_table_says():
    """A new type must be put into the table, after a look at what its service's list shows."""
    found = {f"{s.service_type}.{t.name}": t.created for s in registry.load().services.values() for t in s.types}
    assert found == CREATED


def test_each_attribute_is_a_plain_name_or_a_dotted_path():
    assert [name for name in CREATED.values() if name and not re.fullmatch(r"\w+(\.\w+)*", name)] == []


def test_no_project_setting_declares_one():
    """Project settings are not selected by their age."""
    settings = [t for s in registry.load().services.values() for t in s.types if t.project_setting]
    assert [t.name for t in settings if t.created] == []


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-27T00:37:42Z",  # Neutron, Nova, Glance, Heat
        "2026-11-27T00:37:42.000000",  # Cinder, Designate, Manila
        "2026-11-27T00:37:42",  # Barbican, Octavia
        "2026-11-27T00:37:42+00:00",  # Magnum, Cyborg
        "2026-11-27 00:37:42",  # Mistral
        "2026-11-27T01:37:42+01:00",
        "1795739862",
        1795739862,
        1795739862.0,
        datetime.datetime(2026, 11, 27, 0, 37, 42),
    ],
)
def test_each_form_of_a_time_that_a_service_shows_is_read(value):
    assert moment(value) == datetime.datetime(2026, 11, 27, 0, 37, 42)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "soon",
        0,
        True,
        "Fri, 27 Nov 2026 00:37:42 GMT",
        1e20,
        {},
        [],
        "0001-01-01T00:00:00+10:00",
        float("nan"),
    ],
)
def test_what_is_no_time_is_none(value):
    assert moment(value) is None
