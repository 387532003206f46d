"""An emulated cloud: one HTTP server with the shapes of Keystone, Glance, Neutron, Swift, Barbican and Nova.

    with Emulated(projects=10, seed=1) as cloud:      # cloud.auth_url; the user `orchestrator`, password the same
        cloud.faults.errors(0.1)                      # every tenth call fails, in one way or another
        ...
        assert cloud.audit.foreign_writes() == []
        assert cloud.left(cloud.projects[0]) == {}

Size, latency and faults are the test's; what happened is on record. `http` is the socket, `faults` what goes wrong,
`audit` what was done, `state` the rows, `tables` the types of the services as data; one module per service has what
does not fit a table; `population` fills projects; `cloud` puts it together; `server` runs it as a process of its own.
"""

from tests.emulated.cloud import Emulated

__all__ = ["Emulated"]
