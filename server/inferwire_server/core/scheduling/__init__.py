"""Which job runs next, where and with which others: the rules of one device, from submit to outcome.

Nothing here runs or waits, or looks at a clock. The `scheduler` is told what happens and when, and gives back `effects`
(start, stop, end), which the engine's device carries out. The terms, and the modules that own them:

- A *job* is a submitted inference; its *work* is what a slot is to do (`job`). Several executions that are alike may be
  one job, a *stack* (`stacks`).
- A *lane* is one model on the device: its slots and what waits for them (`lane`). A *slot* runs one inference at a
  time; its *run* is what it runs now.
- Jobs of a lane wait in queues (`queue`), one for each *group* of those that may run as one inference (`batching`, on
  `rows`), and one for each *binding*, a caller's hold on a slot of its own where the model keeps states (`bindings`,
  `ready_bindings`). In a lane the job of the first *rank* is next: the most urgent, then that of the *caller* who has
  waited longest for its turn (`caller_turns`), then the oldest. A caller has no turn while the *outlet* of its answers
  is clogged (`outlet`): its jobs are held back.
- Among lanes (`lane_choice`), the most urgent job is next, then the lane whose *turn* it is by its share of the
  device's time (`fairness`), then the oldest job.
- The device has a number of *places*: each run takes one, unless it is *brief*. While all are taken, brief runs go on
  up to their share of the device's time: only among themselves does urgency decide before it.
- `room` is how much may wait, `deadlines` is when jobs expire; `occupancy` and `tally` are what operators see of it.
"""
