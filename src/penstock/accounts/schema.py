"""Wire types for accounts: sign-up, log-in and the session, and fields that sub-rooms share."""

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from penstock.accounts.model import Role
from penstock.base.patterns import Pattern
from penstock.http.schema import Input, Iso, Name, Record, RuleBroken, without_nul

# The rule that browsers apply to <input type=email>. Source: HTML standard, "valid email address".
_EMAIL = Pattern(
    r"[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@"
    r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
)


def _email(value: str) -> str:
    lowered = value.strip().lower()
    # `=?` starts an encoded word (RFC 2047), which a mail header would decode as another address.
    if not _EMAIL.fullmatch(lowered) or "=?" in lowered:
        raise RuleBroken("not_an_email", "Must be an email address such as name@example.com.")
    return lowered


def _new_password(value: SecretStr) -> SecretStr:
    if not 8 <= len(value) <= 1024:
        raise RuleBroken(
            "too_short" if len(value) < 8 else "too_long", "Must have 8 to 1024 characters."
        )
    return value


Email = Annotated[
    str, Field(max_length=254, json_schema_extra={"format": "email"}), AfterValidator(_email)
]
NewPassword = Annotated[
    SecretStr,
    AfterValidator(_new_password),
    Field(json_schema_extra={"minLength": 8, "maxLength": 1024}),
]

Code = Annotated[
    SecretStr,
    Field(
        min_length=1,
        max_length=64,
        description="Six digits from the authenticator app, or a recovery code.",
    ),
]


class SignUp(Input):
    """A new account, in the inviting workspace or in a new one."""

    email: Email
    password: NewPassword
    invitation: SecretStr | None = None
    """Token from an invitation URL. If you send it, omit workspaceName."""
    workspace_name: Name | None = None
    """Required without an invitation."""

    @model_validator(mode="before")
    @classmethod
    def _fill_omitted(cls, body: Any) -> Any:
        """Pass an omitted field to its validator, so that the error contains the field's name."""
        return {"workspaceName": None, **body} if isinstance(body, dict) else body

    @field_validator("workspace_name")
    @classmethod
    def _require_workspace_name(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "invitation" not in info.data:
            return value  # the invalid invitation has its own error
        has_invitation = info.data["invitation"] is not None
        if value is None and not has_invitation:
            raise RuleBroken("required", "This field is required.")
        if value is not None and has_invitation:
            raise RuleBroken(
                "not_allowed",
                "Omit this with an invitation: its workspace already has a name.",
            )
        return value


class LogIn(Input):
    email: Annotated[str, Field(max_length=254), AfterValidator(without_nul)]
    password: Annotated[SecretStr, Field(max_length=1024)]


class CodeForm(Input):
    """A second-factor code."""

    code: Code


class UserRecord(Record):
    id: str
    email: str
    created_at: Iso
    email_confirmed: bool
    """Whether the user has proven that they own the address."""


class WorkspaceRecord(Record):
    id: str
    name: str
    created_at: Iso


class SessionRecord(Record):
    user: UserRecord
    workspace: WorkspaceRecord
    role: Role
    """Role of the user in the workspace."""
