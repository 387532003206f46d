"""The commands. They need the requirements of the extra ``server``; the package itself has none."""

import importlib.util

if importlib.util.find_spec("oslo_config") is None:
    raise SystemExit("cleanup-orchestrator: install the requirements first: pip install 'cleanup-orchestrator[server]'")
