"""Steps of the preparation that run in the cloud's own venv, where the services can be imported.

    inside.py keystone CONFIG PASSWORD REGION URL [PROJECT USER]
                                                     schema, keys and the first user, in one process; and a second one,
                                                     whose id is in cleanup-user.conf then
    inside.py neutron-schema DATABASE-URL            the schema, straight from the models
    inside.py swift-rings DIRECTORY HOST PORT PORT PORT

One import for several commands is what makes this fast: importing a service takes longer than what it then does.
"""

from __future__ import annotations

import grp
import os
import pwd
import sqlite3
import sys


def keystone(config: str, password: str, region: str, url: str, project: str = "", user: str = "") -> None:
    """What an operator does with four calls of keystone-manage."""
    import serve  # beside this file
    from keystone.cmd import cli

    serve.register_shared_cache()
    account, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    owner = ["--keystone-user", account, "--keystone-group", group]
    commands = [
        ["db_sync"],
        ["fernet_setup", *owner],
        ["credential_setup", *owner],
        ["bootstrap", f"--bootstrap-password={password}", "--bootstrap-region-id", region]
        + [f"--bootstrap-{interface}-url={url}" for interface in ("public", "internal", "admin")],
    ]
    if user:
        who = [f"--bootstrap-username={user}", f"--bootstrap-project-name={project}"]
        commands.append(["bootstrap", f"--bootstrap-password={password}", *who])
    for command in commands:
        # Its configuration object can be set up only once per process, hence a fork for each.
        if (pid := os.fork()) == 0:
            sys.argv = ["keystone-manage", "--config-file", config, *command]
            try:
                cli.main(argv=sys.argv)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status:
            sys.exit(f"keystone-manage {command[0]} failed")
    if user:
        home = os.path.dirname(config)
        with sqlite3.connect(os.path.join(home, "keystone.sqlite")) as database:
            ((user_id,),) = database.execute("SELECT user_id FROM local_user WHERE name = ?", (user,)).fetchall()
        with open(os.path.join(home, "cleanup-user.conf"), "w") as file:
            file.write(f"[project_cleanup]\nuser_id = {user_id}\n")


def neutron_schema(url: str) -> None:
    """Neutron's migrations alter constraints, which SQLite cannot; its models describe the same schema."""
    import sqlalchemy
    from neutron.db.migration.models import head

    head.get_metadata().create_all(sqlalchemy.create_engine(url))


def swift_rings(directory: str, host: str, *ports: str) -> None:
    """One device, one replica."""
    from swift.common.ring import RingBuilder

    for kind, port in zip(("account", "container", "object"), ports, strict=True):
        builder = RingBuilder(4, 1, 0)
        place = {"region": 1, "zone": 1, "ip": host, "port": int(port), "device": "sda"}
        replication = {"replication_ip": host, "replication_port": int(port)}
        builder.add_dev({"id": 0, "weight": 1, "meta": "", **place, **replication})
        builder.rebalance()
        builder.get_ring().save(os.path.join(directory, f"{kind}.ring.gz"))


if __name__ == "__main__":
    {"keystone": keystone, "neutron-schema": neutron_schema, "swift-rings": swift_rings}[sys.argv[1]](*sys.argv[2:])
