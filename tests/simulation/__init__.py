"""Engines, workers, store, bus and cloud under one seeded scheduler, and the promises as what must always hold.

The engine, the workers, the store (SQLite), the decisions, sweeps, surveys and drain drivers are the real ones. Made up
are the clock, the bus (a bag of messages), the network and the cloud behind it. Of all simulated threads exactly one
runs at a time. It may be put aside, killed or frozen at each *effect*: a transaction, a call, a cast, a wait.

    python -m tests.simulation --hours 2            # fresh seeds, for hours
    python -m tests.simulation --seed 7 --trace     # one seed, with every effect

The scheduler is in `tests.support`: processes, threads and time. `plan` says what a seed decides; `keystone` and
`cloud` are the simulated cloud, `wire` stands for HTTP, `bus` for the broker, `database` for the store's side,
`setting` for configuration and clocks. `users` asks the API's own handlers. `world` puts it together, `ending` leads a
run to its end. `promises`, `proofs` and `watches` say what must hold; `breakages` are deliberate defects, each of which
must be noticed; `found` are plans that once failed.
"""
