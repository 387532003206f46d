"""The commands. They need Python 3.11 and the requirements of the extra ``server``; the package itself has none."""

import importlib.util
import sys

text = ""
if sys.version_info < (3, 11):  # what Keystone, services and clients install runs on 3.9
    text = "the server needs Python 3.11 or later; this is Python {}.{}".format(*sys.version_info)
# Keystone's environment has most of the requirements, and no waitress. A service that waitress runs has no SQLAlchemy.
elif not all(map(importlib.util.find_spec, ("sqlalchemy", "waitress"))):
    text = "install the requirements first: pip install 'cleanup-orchestrator[server]'"
if text:
    print(f"cleanup-orchestrator: {text}", file=sys.stderr)
    sys.exit(255)  # "upgrade check" ends with 1 if it has warnings only
