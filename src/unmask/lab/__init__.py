"""Exact analysis of masked samplers and masked losses on spaces small enough to enumerate.

Models (`space`, `model`, `spins`), masks (`mask_law`), samplers (`dynamics`, `spectrum`, `schedules`), dependence
(`correlation`, `tensorisation`), estimators (`information`, `losses`, `fitting`), and the studies built on them.
"""
