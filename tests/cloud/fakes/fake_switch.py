"""Heartbeats of an Open vSwitch agent, so that Neutron binds ports on this host without a switch.

It is started like neutron-openvswitch-agent: ``fake_switch.py --config-file neutron.conf ...``
"""

import sys
import time

import oslo_messaging
from neutron.agent import rpc as agent_rpc
from neutron.common import config
from neutron.conf.agent import common as agent_conf
from neutron_lib import context, rpc
from neutron_lib.agent import topics
from oslo_config import cfg

INTERVAL = 30.0  #: seconds; Neutron counts an agent as dead after 75

CONFIGURATIONS = {
    "bridge_mappings": {"public": "br-ex"},
    "tunnel_types": ["vxlan"],
    "tunneling_ip": "127.0.0.1",
    "integration_bridge": "br-int",
    "datapath_type": "system",
    "vhostuser_socket_dir": "",
    "ovs_capabilities": {"datapath_types": ["system"], "iface_types": []},
    "extensions": [],
    "l2_population": False,
    "arp_responder_enabled": False,
    "devices": 0,
    "in_distributed_mode": False,
    "enable_distributed_routing": False,
    "log_agent_heartbeats": False,
    "resource_provider_bandwidths": {},
    "resource_provider_inventory_defaults": {},
    "ovs_hybrid_plug": False,
    "baremetal_smartnic": False,
}


def main() -> None:
    """Send reports without end; the server may start later or be down for a while."""
    config.register_common_config_options()
    agent_conf.register_agent_state_opts_helper(cfg.CONF)
    config.init(sys.argv[1:])
    config.setup_logging()
    rpc.init(cfg.CONF)
    server = agent_rpc.PluginReportStateAPI(topics.REPORTS)
    state = {
        "binary": "neutron-openvswitch-agent",
        "host": cfg.CONF.host,
        "topic": "N/A",
        "agent_type": "Open vSwitch agent",
        "start_flag": True,
        "configurations": CONFIGURATIONS,
    }
    while True:
        try:
            server.report_state(context.get_admin_context_without_session(), state, True)
            state.pop("start_flag", None)
            time.sleep(INTERVAL)
        except oslo_messaging.MessagingException:
            time.sleep(1)


if __name__ == "__main__":
    main()
