"""Metrics: pure folds over records, the same for a live cluster and a simulated one.

metrics = Metrics(start)              the moment from which on is looked
metrics.hear(now, events, plan)       each cycle: what was observed, and the plan
metrics.summary()                     the numbers so far
numbers_of(summary)                   those that are single, as one flat row
"""

from mooring.metrics.fold import Metrics
from mooring.metrics.numbers import numbers_of
from mooring.metrics.summary import Summary
from mooring.metrics.waits import BUCKETS

__all__ = ["BUCKETS", "Metrics", "Summary", "numbers_of"]
