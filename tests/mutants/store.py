"""Defects in the store that the other modules of mutants do not have: what it counts, lists, keeps and opens."""

from tests.mutants.mutation import Mutation, tests

STORE = "cleanup_orchestrator/store/__init__.py"
DATABASE = "cleanup_orchestrator/store/database.py"
DELETES = "cleanup_orchestrator/store/deletes.py"
LEFTOVERS = "cleanup_orchestrator/store/leftovers.py"
ORPHANS = "cleanup_orchestrator/store/orphans.py"
PAGING = "cleanup_orchestrator/store/paging.py"
SERVICES = "cleanup_orchestrator/store/protocol_services.py"
QUEUE = "cleanup_orchestrator/store/queue.py"
RECORDS = "cleanup_orchestrator/store/records.py"
LIMITS = "cleanup_orchestrator/store/request_limits.py"
STORABLE = "cleanup_orchestrator/core/storable.py"
STATISTICS = "cleanup_orchestrator/store/statistics.py"

MUTATIONS = (
    Mutation(
        "The store names the wrong repository for what a worker releases",
        STORE,
        "steps.claim, steps.renew, steps.release_claim",
        "steps.claim, steps.renew, steps.renew",
        tests("store/guard"),
    ),
    Mutation(
        "A page of leftovers begins with the last one of the page before",
        "cleanup_orchestrator/store/leftovers.py",
        "            query = query.where(t.leftovers.c.id > marker)\n        with",
        "            query = query.where(t.leftovers.c.id >= marker)\n        with",
        tests("functional/test_store/test_leftovers"),
    ),
    # -- the database
    Mutation(
        "A transaction on SQLite takes the lock only when it writes",
        DATABASE,
        'connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")',
        'connection.exec_driver_sql("BEGIN")',
        tests("store/database"),
    ),
    Mutation(
        "A reader on SQLite waits for each writer",
        DATABASE,
        'connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")',
        'connection.exec_driver_sql("BEGIN IMMEDIATE")',
        tests("store/database"),
    ),
    Mutation(
        "A connection to the database waits for two hours for a host that is gone",
        DATABASE,
        '"connect_args": unnamed, **pool}',
        '"connect_args": {}, **pool}',
        tests("store/database"),
    ),
    Mutation(
        "A host that stops in a transaction keeps its locks",
        DATABASE,
        'sa_event.listen(engine, "connect", _idle_timeout(parsed.get_backend_name()))',
        "pass",
        tests("store/database"),
    ),
    Mutation(
        "A pooled connection that broke is used again",
        DATABASE,
        'raise sa_exc.InvalidatePoolError("the connection is lost") from error',
        "return",
        tests("store/database"),
    ),
    Mutation(
        "A connection returns to the pool with the transaction of an error",
        DATABASE,
        "            engine.dialect.do_rollback(connection)\n",
        "            pass\n",
        tests("store/database"),
    ),
    Mutation(
        "The health check asks a database that is away again and again",
        DATABASE,
        "    def ping(self) -> None:\n",
        "    @retry_transient\n    def ping(self) -> None:\n",
        tests("store/database"),
    ),
    # -- deletes that services accepted
    Mutation(
        "A result that knows nothing of accepted deletes forgets them",
        DELETES,
        "    if wanted is None or not (wanted or has_deletes):\n",
        "    wanted = wanted or ()\n    if not (wanted or has_deletes):\n",
        tests("functional/test_store/test_deletes"),
    ),
    Mutation(
        "A type that is proven empty keeps its accepted deletes",
        DELETES,
        "wanted = () if result.outcome is Outcome.CLEAR else result.deletes",
        "wanted = result.deletes",
        tests("functional/test_store/test_deletes"),
    ),
    Mutation(
        "The accepted deletes of another step are replaced",
        DELETES,
        'sa.select(t.deletes).where(t.deletes.c.step_id == sa.bindparam("of_step"))',
        'sa.select(t.deletes).where(sa.bindparam("of_step") != "")',
        tests("functional/test_store/test_deletes"),
    ),
    Mutation(
        "The accepted deletes of ids that differ only in case are replaced together",
        DELETES,
        "            stale.append(row.id)\n"
        "    for some in _chunks(stale):\n"
        "        c.execute(t.deletes.delete().where(t.deletes.c.id.in_(some)))\n",
        "            stale.append(row.resource_id.lower())\n"
        "    for some in _chunks(stale):\n"
        "        c.execute(t.deletes.delete().where(sa.func.lower(t.deletes.c.resource_id).in_(some)))\n",
        tests("functional/test_store/test_deletes"),
    ),
    # -- the form in which ids are stored
    Mutation(
        "Two resources with long ids are stored as one",
        STORABLE,
        "    if kept == given and len(kept) <= _SHORT:\n        return kept\n",
        "    return kept[:_SHORT]\n",
        tests("core/storable worker/exclusions"),
    ),
    Mutation(
        "A resource whose id is the stored form of a planned one is deleted",
        STORABLE,
        " and not (stored == id_ and is_shortened(stored))",
        "",
        tests("core/storable worker/exclusions"),
    ),
    Mutation(
        "A resource is looked for among stored ids by its id as listed",
        STORABLE,
        "stored = resource_id(id_)",
        "stored = str(id_)",
        tests("core/storable worker/exclusions"),
    ),
    # -- leftovers
    Mutation(
        "The leftovers of a dry run are listed as left",
        LEFTOVERS,
        "d.dry_run.is_(False), d.status",
        "d.status",
        tests("functional/test_api/test_searches"),
    ),
    Mutation(
        "The leftovers of an earlier deletion of the project are listed as left",
        LEFTOVERS,
        "*(sa.not_(records.superseded()), *([]",
        "*(sa.true(), *([]",
        tests("functional/test_api/test_searches"),
    ),
    Mutation(
        "A later dry run hides what a deletion left",
        RECORDS,
        "later.status_at > d.status_at, later.dry_run.is_(False)",
        "later.status_at > d.status_at",
        tests("functional/test_api/test_searches"),
    ),
    Mutation(
        "A domain manager sees what is left in other domains",
        LEFTOVERS,
        "*([] if domain_id is None else [d.domain_id == domain_id])",
        "*[]",
        tests("functional/test_api/test_searches"),
    ),
    Mutation(
        "A leftover whose reason changed keeps its old row",
        LEFTOVERS,
        "if same is not None and _says(row, same):",
        "if same is not None:",
        tests("functional/test_store/test_leftovers functional/test_store/test_deletions"),
    ),
    Mutation(
        "A leftover that is gone stays on record",
        LEFTOVERS,
        "            stale.append(row.id)\n",
        "            pass\n",
        tests("functional/test_store/test_leftovers functional/test_store/test_deletions"),
    ),
    # -- orphans
    Mutation(
        "Two orphan scans run at once",
        ORPHANS,
        "                raise ScanUnderWay(live)\n",
        "                pass\n",
        tests("store/orphans"),
    ),
    Mutation(
        "Each engine starts the scheduled scan",
        ORPHANS,
        "if not_before is not None and latest is not None and latest + not_before > now:",
        "if False:",
        tests("store/orphans"),
    ),
    Mutation(
        "A worker without the claim of the catalog records what to scan",
        ORPHANS,
        "            if not _hold_claim(c, holder):\n                return False\n",
        "",
        ("tests/functional/test_fencing.py",),
    ),
    Mutation(
        "A step of a scan that has ended is claimed",
        "cleanup_orchestrator/store/steps.py",
        "return *of_scan, of_scan.scan.status in SCANNING",
        "return *of_scan, True",
        tests("store/orphans"),
    ),
    Mutation(
        "A worker writes orphans after the scan was cancelled",
        ORPHANS,
        "t.steps.c.owner_id, _SCANS.c.live.is_not(None))",
        "t.steps.c.owner_id)",
        tests("store/orphans"),
    ),
    Mutation(
        "The orphans of a first read that was repeated are noted twice",
        ORPHANS,
        "    if step.round == 1:\n        c.execute(_ORPHANS.delete()",
        "    if False:\n        c.execute(_ORPHANS.delete()",
        tests("store/orphans"),
    ),
    Mutation(
        "What only the first read saw is an orphan",
        ORPHANS,
        "again = sa.and_(mine, _ORPHANS.c.seen_fence == step.fencing_token)",
        "again = mine",
        tests("store/orphans"),
    ),
    Mutation(
        "What only a lost second read saw is an orphan",
        ORPHANS,
        "again = sa.and_(mine, _ORPHANS.c.seen_fence == step.fencing_token)",
        "again = sa.and_(mine, _ORPHANS.c.seen_fence > 0)",
        tests("store/orphans"),
    ),
    Mutation(
        "A resource that changed its owner between two reads is an orphan",
        ORPHANS,
        "if owners.get(row.resource_id) == row.project_id]",
        "if row.resource_id in owners]",
        tests("store/orphans"),
    ),
    Mutation(
        "A scan that ended keeps what was seen once",
        ORPHANS,
        "            if decided.scan.status not in SCANNING:\n",
        "            if False:\n",
        tests("store/orphans"),
    ),
    Mutation(
        "A list of orphans shows what was seen once",
        ORPHANS,
        "query = sa.select(_ORPHANS).where(_ORPHANS.c.scan_id == scan_id, _ORPHANS.c.confirmed.is_(True))",
        "query = sa.select(_ORPHANS).where(_ORPHANS.c.scan_id == scan_id)",
        tests("store/orphans"),
    ),
    Mutation(
        "A project of orphans has the name of its first deletion",
        ORPHANS,
        ".order_by(d.c.created_at)\n            )\n            latest",
        ".order_by(d.c.created_at.desc())\n            )\n            latest",
        tests("store/orphans"),
    ),
    # -- lists
    Mutation(
        "A page begins with the marker",
        PAGING,
        'return here > there if ways == {"asc"} else here < there',
        'return here >= there if ways == {"asc"} else here <= there',
        tests("store/paging"),
    ),
    Mutation(
        "A list in descending order goes backwards from its marker",
        PAGING,
        'return here > there if ways == {"asc"} else here < there',
        "return here > there",
        tests("store/paging"),
    ),
    Mutation(
        "A marker of an unknown record begins the list anew",
        PAGING,
        '            raise NotFound(f"no {noun} has the id of the marker: {page.marker}")\n        query',
        "            return []\n        query",
        tests("store/paging"),
    ),
    Mutation(
        "Rows that sort alike have no order",
        PAGING,
        '("created_at", "id")',
        '("created_at",)',
        tests("store/paging"),
    ),
    # -- services that speak the protocol
    Mutation(
        "A service that is silent once loses its document",
        SERVICES,
        "            if answer.document is not None:\n",
        "            if True:\n                answer = dataclasses.replace(answer, document=answer.document or {})\n",
        tests("functional/test_store/test_protocol_services"),
    ),
    Mutation(
        "The answer of a service in one region counts for all regions",
        SERVICES,
        "mine = sa.and_(table.c.region == answer.region, table.c.service_type == answer.service_type)",
        "mine = table.c.service_type == answer.service_type",
        tests("functional/test_store/test_protocol_services"),
    ),
    Mutation(
        "A service's error of odd characters ends the survey of every deletion",
        SERVICES,
        "            error = storable.text(answer.error)\n",
        "            error = answer.error\n",
        tests("functional/test_store/test_protocol_services"),
    ),
    Mutation(
        "A service's document of odd characters ends the survey of every deletion",
        SERVICES,
        '"document": records.plain(answer.document)',
        '"document": dict(answer.document)',
        tests("functional/test_store/test_protocol_services"),
    ),
    Mutation(
        "A project with a name of odd characters cannot be deleted",
        RECORDS,
        "storable.text(d.project_name)[:255]",
        "d.project_name",
        tests("functional/test_store/test_deletions"),
    ),
    # -- the queue
    Mutation(
        "A large project keeps a place for ever",
        QUEUE,
        '    sa.or_(_D.status_at > sa.bindparam("since"), _D.turn_at > sa.bindparam("since")),\n',
        '    sa.or_(sa.true(), _D.turn_at > sa.bindparam("since")),\n',
        tests("functional/test_store/test_queue"),
    ),
    Mutation(
        "Of one requester the newest deletion gets the next place",
        QUEUE,
        ".order_by(_D.created_at, _D.id).limit(sa.bindparam",
        ".order_by(_D.created_at.desc(), _D.id).limit(sa.bindparam",
        tests("functional/test_store/test_queue"),
    ),
    Mutation(
        "The latest turn of a requester does not count",
        QUEUE,
        "            lines[domain, user] = dataclasses.replace(line, turn_at=at)\n",
        "            pass\n",
        tests("functional/test_store/test_queue"),
    ),
    # -- rows
    Mutation(
        "An orphan scan that ended stays the one that is under way",
        RECORDS,
        'live = "scan" if s.status in SCANNING else None',
        'live = "scan"',
        tests("store/orphans"),
    ),
    Mutation(
        "A text that is too long for its column fails the result of a step",
        STORABLE,
        "    if len(stored) > _MAX:",
        "    if False:",
        tests("core/storable"),
    ),
    Mutation(
        "A deletion that ended still holds its project",
        RECORDS,
        'values["live_project_id"] = d.project_id if d.status in LIVE else None',
        'values["live_project_id"] = d.project_id',
        tests("functional/test_store/test_statistics store/records functional/test_store/test_deletions"),
    ),
    # -- limits of requests
    Mutation(
        "A user may request any number of deletions of one domain a day",
        LIMITS,
        "daily_per_domain=count(limits.daily_per_domain, domain, today)",
        "daily_per_domain=0",
        tests("store/request_limits"),
    ),
    Mutation(
        "Deletions that ended count against a requester's limit",
        LIMITS,
        "live_per_requester=count(limits.live_per_requester, mine, live)",
        "live_per_requester=count(limits.live_per_requester, mine)",
        tests("store/request_limits"),
    ),
    # -- figures
    Mutation(
        "Steps of deletions that ended count as under way",
        STATISTICS,
        "under_way = live & t.steps",
        "under_way = t.steps",
        tests("functional/test_store/test_statistics"),
    ),
    Mutation(
        "A condition that is over counts",
        STATISTICS,
        'any(x["type"] == type_ and x["status"] for x in conditions)',
        'any(x["type"] == type_ for x in conditions)',
        tests("functional/test_store/test_statistics"),
    ),
    Mutation(
        "The most overdue deletion is one that ended",
        STATISTICS,
        "sa.select(sa.func.min(t.deletions.c.wake_at)).where(live)",
        "sa.select(sa.func.min(t.deletions.c.wake_at))",
        tests("functional/test_store/test_statistics"),
    ),
)
