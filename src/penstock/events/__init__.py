"""Incoming events: validation, deduplication, identity, storage, and shipping to the warehouse.

Other rooms use `service`, `intake`, `shipper`, `fields` and `model`.
"""
