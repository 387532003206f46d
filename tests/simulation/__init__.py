"""Runs engines, workers, store, bus and cloud under one seeded scheduler, and checks the promises at each effect.

The engine, the workers, the store (SQLite), the decisions, sweeps, surveys and drain drivers are the real ones. The
clock, the bus (a bag of messages), the network and the cloud are simulated. Exactly one simulated thread runs at a
time. It may be suspended, killed or frozen at each *effect*: a transaction, a call, a cast, a wait.

    python -m tests.simulation --hours 2            # fresh seeds, for hours
    python -m tests.simulation --seed 7 --trace     # one seed, with every effect

The scheduler in `tests.support` has processes, threads and time. `plan` has what a seed decides. `keystone` and `cloud`
are the simulated cloud; `keystone_api` has the calls to Keystone, and `keystone_processes` its processes. `others` are
admins and a domain manager. `wire` replaces HTTP, `bus` the broker, `database` the database server, `setting`
configuration and clocks. `users` calls the handlers of the API. `world` combines the parts, and `ending` leads a run to
its end. `promises`, `proofs` and `watches` check what must hold. `breakages` are deliberate defects, each of which must
break a promise. `found` has plans that failed once.
"""
