"""Profile `kai`: queues, reclaim and placement as KAI-Scheduler has them.

crew        a workload as a tree of groups: which tasks come next, which leave first
round       one cycle: fair shares, quotas and limits as they stand
order       who is next among queues and workloads, and who is the first to leave
domains     the sets of nodes that a group tries, in order
seating     places for tasks, one after the other
solver      sets of victims, each tried out in the books
actions     who may trigger what: consolidation, reclaim, preempt
court       the actions in order, and why the rest waits
"""
