"""An emulated cloud: one HTTP server with the shapes of Keystone, Glance, Neutron, Swift, Barbican and Nova.

    with Emulated(projects=10, seed=1) as cloud:      # cloud.auth_url; the user `orchestrator`, password the same
        cloud.faults.errors(0.1)                      # every tenth call fails, in one way or another
        ...
        assert cloud.audit.foreign_writes() == []
        assert cloud.left(cloud.projects[0]) == {}

The test chooses size, latency and faults, and can read afterwards what happened. `http` is the server, `faults` decides
about failures, `audit` records the writes, `state` has the rows, `tables` describes the types of the services. One
module per service has what does not fit into a table. `population` fills projects, `cloud` combines the parts, and
`server` runs the cloud in a separate process.
"""

from tests.emulated.cloud import Emulated

__all__ = ["Emulated"]
