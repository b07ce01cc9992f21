"""The base of setting groups."""

from typing import ClassVar

from pydantic_settings import BaseSettings


class SettingGroup(BaseSettings):
    """Settings that an operator reads together. title: their heading in the documentation."""

    title: ClassVar[str]
