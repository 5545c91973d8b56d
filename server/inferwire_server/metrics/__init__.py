"""What operators watch, in Prometheus' text format.

`scraping` reads the sources: the functions `of_...` of `jobs`, `load` (with `room`, what there is at most), `callers`
and `server`; and what the system has of the `process`.
"""
