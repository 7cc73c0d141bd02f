"""Queues: who waits, who may be charged, and what each has by right."""
