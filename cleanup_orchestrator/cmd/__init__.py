"""The commands. They need the requirements of the extra ``server``; the package itself has none."""

import importlib.util
import sys

# Keystone's environment has most of the requirements, and no waitress. A service that waitress runs has no SQLAlchemy.
if not all(map(importlib.util.find_spec, ("sqlalchemy", "waitress"))):
    text = "cleanup-orchestrator: install the requirements first: pip install 'cleanup-orchestrator[server]'"
    print(text, file=sys.stderr)
    sys.exit(255)  # "upgrade check" ends with 1 if it has warnings only
