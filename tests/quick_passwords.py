"""Replaces password hashes with cheap ones.

A real hash takes 0.2 s of CPU time, and tests sign up hundreds of times. Services that tests start
with `new_python` use real hashes.
"""

from argon2 import PasswordHasher

from penstock.accounts import credentials


def hash_cheaply() -> None:
    credentials._hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
