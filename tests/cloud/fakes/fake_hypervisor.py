"""nova-compute over Nova's fake hypervisor, whose node keeps its id from one start to the next.

The fake by itself has another one in each process, and Nova refuses a second node of the same name.
"""

import sys
import uuid

from nova.cmd.compute import main
from nova.virt import fake


class Names:
    """Return an id for each name, always the same."""

    def __getattr__(self, name):
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


fake.uuids = Names()

if __name__ == "__main__":
    sys.argv[0] = "nova-compute"
    sys.exit(main())
