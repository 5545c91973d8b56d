"""The execution: compiled models, their slots, and a queue for each device; what runs them is behind `backend`.

A model is *unloaded*, for good or until its next job, and the memory that it ran in is then *freed*. Callers *release*
what they hold: a binding, a tensor, an upload, a job that has ended.
"""
