import pathlib
import re

import pytest
from hypothesis import settings
from oslo_config import cfg

from cleanup_orchestrator.budget import Budget
from tests.databases import database_url

#: How long an example takes says how busy the machine is, and nothing of what is tested.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

__all__ = ["database_url"]


#: All files that need all thirteen services.
WHOLE = "the whole cloud"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Of several test processes one gets all files that need the whole cloud, and first: it is slow to start."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            text = pathlib.Path(config.rootpath, file).read_text()
            return WHOLE if re.search(r"\bfull_(cloud|admin|sweeper)\b", text) else file

        def _assign_work_unit(self, node):
            if WHOLE in self.workqueue:
                self.workqueue.move_to_end(WHOLE, last=False)
            super()._assign_work_unit(node)

    return Scheduling(config, log)


@pytest.fixture(autouse=True, scope="module")
def no_options_of_others():
    """Each file begins without the options that another one's configuration required.

    keystoneauth registers some as required, in the one object that a process has; a configuration without that section
    would then be refused.
    """
    yield
    cfg.CONF.reset()
    for name in ("keystone_authtoken", "orchestrator"):
        group = cfg.CONF._groups.get(name)
        for known in list(group._opts.values()) if group else ():
            if known["opt"].required:
                cfg.CONF.unregister_opt(known["opt"], name)


@pytest.fixture(autouse=True, scope="module")
def no_budgets_of_others():
    """A budget renews in the background what it holds, and says so when it cannot: not in the next file's output."""
    kept, keep = [], Budget.keep

    def noted(budget):
        kept.append(budget)
        keep(budget)

    Budget.keep = noted
    yield
    Budget.keep = keep
    for budget in kept:
        for account in budget._accounts.values():
            account.leased = False
        if budget._keeper is not None:
            budget._keeper.join(5)
