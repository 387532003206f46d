"""Runs one process of the cloud, so that it cannot outlive the launcher.

The launcher starts it with the Python of the cloud. It imports only the standard library before it has asked the kernel
to kill this process together with its parent. It then has three modes:

    serve.py --parent PID exec -- COMMAND ...        become COMMAND (for commands without child processes)
    serve.py --parent PID guard -- COMMAND ...       run COMMAND, and kill all its children at the end
    serve.py --parent PID wsgi --port N --module package.module:attribute [-- ARGUMENTS ...]
    serve.py --parent PID wsgi --port N --paste FILE

WSGI services get threads in one process (cheroot), and one line per request on standard output.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import runpy
import signal
import sqlite3
import subprocess
import sys
import threading
import time

#: Seconds that a transaction waits for another one.
LOCK_TIMEOUT = 30
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
HOST = "127.0.0.1"
#: What a web server loads in a release that has no module for it yet: scripts of the venv.
SCRIPTS = {
    "cinder": "cinder-wsgi",
    "designate": "designate-api-wsgi",
    "glance": "glance-wsgi-api",
    "heat": "heat-wsgi-api",
    "keystone": "keystone-wsgi-public",
    "magnum": "magnum-api-wsgi",
    "manila": "manila-wsgi",
    "neutron": "neutron-api",
    "nova": "nova-api-wsgi",
    "octavia": "octavia-wsgi",
    "placement": "placement-api",
}


def prctl(option: int, value: int) -> None:
    """The system call."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def die_with(parent: int, signum: int = signal.SIGKILL) -> None:
    """Ask the kernel for `signum` when the thread that started this process is gone."""
    prctl(PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:  # it ended before the request to the kernel
        sys.exit(1)


def guard(command: list[str]) -> int:
    """Run `command` in this process group; kill all processes that it started at its end."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphaned processes become children of this process, and not of init
    here = os.getpid()

    def end_all(signum: int, frame: object) -> None:
        # Some daemons are leaders of separate process groups.
        while others := descendants(here):
            for pid in others:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for pid in others:
                try:
                    os.waitpid(pid, 0)
                except ChildProcessError:  # not a child yet: it becomes one now that its parent has ended
                    pass
        os.killpg(0, signal.SIGKILL)  # this process too

    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, end_all)
    code = subprocess.call(command, preexec_fn=lambda: die_with(here))
    if code == 0:
        return 0
    return code if code > 0 else 128 - code


def descendants(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:  # it ended meanwhile
        pass
    return found + [one for child in found for one in descendants(child)]


def access_log(application):
    """Wrap a WSGI application so that it logs the time, the request, the status, the duration and the client."""

    def logged(environ, start_response):
        began = time.monotonic()
        query = f"?{environ['QUERY_STRING']}" if environ.get("QUERY_STRING") else ""
        what = f"{environ['REQUEST_METHOD']} {environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}{query}"

        def start(status, headers, exc_info=None):
            took = (time.monotonic() - began) * 1000
            now = time.time()
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1000):03}"
            shown = what.encode("ascii", "backslashreplace").decode()
            agent = environ.get("HTTP_USER_AGENT", "-").encode("ascii", "backslashreplace").decode()
            # One write for each line: the threads of a service write at the same time.
            sys.stdout.write(f"{stamp} {shown} -> {status} ({took:.0f} ms) {agent}\n")
            sys.stdout.flush()
            return start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

        return application(environ, start)

    return logged


def green() -> bool:
    """Return whether the service has replaced threads by those of eventlet, which all are one thread of the kernel."""
    eventlet = sys.modules.get("eventlet")
    return eventlet is not None and eventlet.patcher.is_monkey_patched("thread")


def tune_sqlite() -> None:
    """Make SQLite usable for several threads that read and write.

    If a transaction begins with a read and writes later, SQLite refuses the write at once when another one wrote in
    between, for every timeout, and Keystone does not retry. So transactions that write take the lock at their
    beginning, where they can wait for it. Readers see the last committed state and do not wait.
    """
    try:
        import sqlalchemy
        import sqlalchemy.orm
        from oslo_db import exception
        from oslo_db.sqlalchemy import enginefacade, exc_filters
    except ImportError:  # a service without a database
        return

    @sqlalchemy.event.listens_for(sqlalchemy.engine.Engine, "connect")
    def tune(connection, record):
        if not isinstance(connection, sqlite3.Connection):
            return
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {20 if green() else 1000 * LOCK_TIMEOUT}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = OFF")  # it is a demo: a power failure may lose data
        cursor.close()

    factory = enginefacade._TransactionFactory
    create_session = factory._create_session

    def create_marked(self, mode, bind=None):
        session = create_session(self, mode, bind=bind)
        session.info["reads"] = mode is not enginefacade._WRITER
        return session

    factory._create_session = create_marked

    @sqlalchemy.event.listens_for(sqlalchemy.orm.Session, "after_begin")
    def lock(session, transaction, connection):
        if transaction.nested or session.info.get("reads") or connection.dialect.name != "sqlite":
            return
        cursor = connection.connection.cursor()
        cursor.execute("ROLLBACK")  # of the transaction that has just begun
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                cursor.execute("BEGIN IMMEDIATE")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                # With the eventlet of Neutron 24 a wait in SQLite would stop all threads, also the one with the lock.
                time.sleep(0.01)
        cursor.close()

    @exc_filters.filters("sqlite", sqlalchemy.exc.OperationalError, r".*database is locked.*")
    def locked(error, match, engine_name, is_disconnect):
        raise exception.DBDeadlock(error)  # the message for which the services retry


def register_shared_cache() -> None:
    """Replace ``dogpile.cache.dbm`` by a cache in a SQLite file, which all processes share without a server.

    The real one is slow if Python has only ``dbm.dumb``, and oslo.cache finds its backends by name.
    """
    try:
        from dogpile.cache import register_backend
        from dogpile.cache.api import NO_VALUE, BytesBackend
    except ImportError:  # a service without a cache
        return

    class SharedCache(BytesBackend):
        def __init__(self, arguments) -> None:
            self.filename = arguments["filename"]
            self.local = threading.local()

        def execute(self, statement: str, *arguments):
            if getattr(self.local, "database", None) is None:
                database = sqlite3.connect(self.filename, timeout=30, isolation_level=None)
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = OFF")
                database.execute("CREATE TABLE IF NOT EXISTS cache (key TEXT PRIMARY KEY, value BLOB)")
                self.local.database = database
            return self.local.database.execute(statement, arguments).fetchall()

        def get_serialized(self, key: str):
            found = self.execute("SELECT value FROM cache WHERE key = ?", key)
            return found[0][0] if found else NO_VALUE

        def set_serialized(self, key: str, value: bytes) -> None:
            self.execute("INSERT OR REPLACE INTO cache VALUES (?, ?)", key, value)

        def delete(self, key: str) -> None:
            self.execute("DELETE FROM cache WHERE key = ?", key)

    globals()["SharedCache"] = SharedCache
    register_backend("dogpile.cache.dbm", __name__, "SharedCache")


def keep_tokens_apart() -> None:
    """Make Keystone usable with several threads.

    Its middleware stores the token of the current request in an attribute, where a request of another thread finds it:
    an application credential would get the roles of another user. Upstream runs Keystone with one thread per process.
    """
    loaded = sys.modules.get("keystone.server.flask.request_processing.middleware.auth_context")
    if loaded is None:  # another service
        return
    local = threading.local()
    loaded.AuthContextMiddleware.token = property(
        lambda self: getattr(local, "token", None), lambda self, token: setattr(local, "token", token)
    )


def be_the_first_worker(module: str) -> None:
    """Neutron 27 and 28 lay out the ranges that networks get their numbers from only in the first worker of uWSGI."""
    if not module.startswith("neutron."):
        return
    try:
        from neutron.common import wsgi_utils
    except ImportError:  # a release without these ranges
        return
    if hasattr(wsgi_utils, "FIRST_WORKER_ID"):
        wsgi_utils.get_api_worker_id = lambda: wsgi_utils.FIRST_WORKER_ID


def load(module: str | None, paste: str | None):
    """The WSGI application named on the command line."""
    if paste:
        from paste.deploy import loadapp

        return loadapp(f"config:{os.path.abspath(paste)}")
    name, _, attribute = module.partition(":")
    be_the_first_worker(name)
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        script = SCRIPTS.get(name.partition(".")[0])
        if script is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        return runpy.run_path(os.path.join(os.path.dirname(sys.executable), script))["application"]
    return getattr(sys.modules[name], attribute or "application")


def wsgi(options: argparse.Namespace) -> None:
    """Serve until killed."""
    from cheroot.wsgi import Server

    # The services parse sys.argv when they are imported: they get only their arguments.
    sys.argv = [options.name, *options.arguments]
    tune_sqlite()
    register_shared_cache()
    application = load(options.module, options.paste)
    keep_tokens_apart()
    application = access_log(application)

    def server(port: int, shared: bool = False):
        made = Server(
            (HOST, port),
            application,
            numthreads=options.threads,
            request_queue_size=128,
            timeout=600,  # a connection that closes while its client sends would cause an unexpected error
            reuse_port=shared,
        )
        # The server must not close a connection that a client is going to reuse when many are open.
        made.keep_alive_conn_limit = 256
        return made

    if options.shared_port:
        shared = server(options.shared_port, shared=True)
        shared.prepare()  # it listens before the other port shows that this process is up
        threading.Thread(target=shared.serve, name="shared-port", daemon=True).start()
    server(options.port).safe_start()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parent", type=int, required=True, help="process id of the launcher; ends when it ends")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("exec", "guard"):
        verbs.add_parser(verb).add_argument("arguments", nargs="+")
    serve = verbs.add_parser("wsgi")
    serve.add_argument("--name", default="wsgi")
    serve.add_argument("--port", type=int, required=True)
    serve.add_argument("--shared-port", type=int, help="another port, which several processes listen on")
    serve.add_argument("--threads", type=int, default=8)
    what = serve.add_mutually_exclusive_group(required=True)
    what.add_argument("--module")
    what.add_argument("--paste")
    serve.add_argument("arguments", nargs="*")
    options = parser.parse_args()

    die_with(options.parent, signal.SIGTERM if options.verb == "guard" else signal.SIGKILL)
    if options.verb == "exec":
        os.execvp(options.arguments[0], options.arguments)
    if options.verb == "guard":
        return guard(options.arguments)
    # The script's own folder must not shadow modules of the services (it is no package of the services).
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    wsgi(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
