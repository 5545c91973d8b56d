"""The execution: compiled models, their slots, and a queue for each device; what runs them is behind `backend`.

- The `engine` has the devices and the `models`. A `device` carries out what its scheduler decides; `placed_model` is
  what it knows of each model, and its `runner` has the loop or a thread of a `thread_pool` do the work.
- `opening` makes a model ready to run: it is compiled, checked and warmed up. `row_ports` and `row_check` say whether
  its rows may be batched; `picture_models` decode pictures before it, with `picture_decoder`.
- `model_slots` are a model's slots, `brief_slot` is the one on the event loop, and `slot_runs` what a slot does with
  jobs.
- `idle` unloads models that have had no job for long; `freeing` frees what is large.
- `fake_backend` is the backend of tests.

A model is *unloaded*, for good or until its next job, and the memory that it ran in is then *freed*. Callers *release*
what they hold: a binding, a tensor, an upload, a job that has ended.
"""
