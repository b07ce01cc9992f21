"""The base class for groups of settings."""

from typing import ClassVar

from pydantic_settings import BaseSettings


class SettingGroup(BaseSettings):
    """Settings that belong together. title: their heading in the documentation."""

    title: ClassVar[str]
