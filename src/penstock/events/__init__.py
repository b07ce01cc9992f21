"""Events in: validation, deduplication, identity, durable storage, shipping to the warehouse.

Other rooms use `service`, `intake`, `shipper`, `fields` and `model`.
"""
