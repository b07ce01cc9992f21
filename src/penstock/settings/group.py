"""The base class for groups of settings, and the rule that a setting can have."""

from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings


class SettingGroup(BaseSettings):
    """Settings that belong together. title: their heading in the documentation."""

    title: ClassVar[str]


def rule(is_valid: Callable[[Any], bool], code: str, message: str) -> AfterValidator:
    """Return a validator that rejects a value which is set but not valid."""

    def check(value: Any) -> Any:
        if value is not None and not is_valid(value):
            raise PydanticCustomError(code, message)
        return value

    return AfterValidator(check)
