"""Swift: containers, account metadata, and (optionally) the account itself.

An account is the whole store of a project, and its name is part of the endpoint. A wrong endpoint would empty the
account of another project. So the account in the URL of every call is compared with the project's id. Except for the
delete of the account, the token is scoped into the project. Only two kinds of accounts are accessed as a reseller
admin: that of a project that is gone, and that of a project whose token Swift cannot read, because the name of the
project or its domain is not Latin-1.

Not swept: accounts under further reseller prefixes (``SERVICE_``). Only the service that keeps data there can access
them, with its service token. Account quotas and ACLs can be written by a reseller admin only, and are deleted with the
account.
"""

from __future__ import annotations

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import CONTROLLERS, Service
from cleanup_orchestrator.plugins.object_store.accounts import ACCOUNT, ACCOUNT_METADATA
from cleanup_orchestrator.plugins.object_store.containers import CONTAINER

OPTIONS = (
    cfg.BoolOpt(
        "account_in_url",
        default=True,
        help="Whether the endpoint names the project's account, as Swift's does. False is for a Ceph Object Gateway "
        "without 'rgw swift account in url', where the token alone determines the account.",
    ),
    cfg.BoolOpt(
        "delete_account",
        default=False,
        help="Delete the account itself at the end. It takes the role ResellerAdmin and 'allow_account_management' in "
        "Swift's proxy. It cannot be undone: the same project id gets no account again until Swift has reclaimed it.",
    ),
)

SERVICE = Service(
    service_type="object-store",
    contract_version=2,
    after=CONTROLLERS,
    options=OPTIONS,
    roles="one of Swift's operator_roles on the project to be deleted; ResellerAdmin for delete_account, and for "
    "the accounts of projects that are gone or have a name that is not Latin-1",
    types=(
        CONTAINER,
        ACCOUNT_METADATA,
        ACCOUNT,
    ),
)
