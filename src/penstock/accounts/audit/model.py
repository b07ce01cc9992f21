"""Plain types for the audit log. No I/O."""

from enum import StrEnum


class Action(StrEnum):
    """The type of an action. Values are stored, so they must never change."""

    SIGNED_UP = "signed_up"
    SIGNED_IN = "signed_in"
    SIGN_IN_FAILED = "sign_in_failed"
    PASSWORD_CHANGED = "password_changed"  # noqa: S105 - no password
    PASSWORD_RESET_REQUESTED = "password_reset_requested"  # noqa: S105 - no password
    PASSWORD_RESET = "password_reset"  # noqa: S105 - no password
    EMAIL_CONFIRMED = "email_confirmed"
    ACCOUNT_RECLAIMED = "account_reclaimed"
    SECOND_FACTOR_ENABLED = "second_factor_enabled"
    SECOND_FACTOR_DISABLED = "second_factor_disabled"
    SECOND_FACTOR_RESET = "second_factor_reset"
    RECOVERY_CODES_CREATED = "recovery_codes_created"
    MEMBER_INVITED = "member_invited"
    INVITATION_WITHDRAWN = "invitation_withdrawn"
    MEMBER_JOINED = "member_joined"
    ROLE_CHANGED = "role_changed"
    MEMBER_REMOVED = "member_removed"
    KEY_CREATED = "key_created"
    KEY_REVOKED = "key_revoked"
    WEBSITE_CREATED = "website_created"
    WEBSITE_CHANGED = "website_changed"
    WEBSITE_DELETED = "website_deleted"
    WORKSPACE_CHANGED = "workspace_changed"
    INTERNAL_TRAFFIC_CHANGED = "internal_traffic_changed"
    IDENTITY_SECRET_CREATED = "identity_secret_created"  # noqa: S105 - no secret
    IDENTITY_SECRETS_DELETED = "identity_secrets_deleted"
    PROVIDER_SECRET_SET = "provider_secret_set"  # noqa: S105 - no secret
    PROVIDER_REMOVED = "provider_removed"
    LINK_CHANGED = "link_changed"
    DELETION_REQUESTED = "deletion_requested"
    IMPORT_UNDONE = "import_undone"
    COHORT_CREATED = "cohort_created"
    COHORT_CHANGED = "cohort_changed"
    COHORT_DELETED = "cohort_deleted"
    ALERT_CREATED = "alert_created"
    ALERT_CHANGED = "alert_changed"
    ALERT_DELETED = "alert_deleted"
    ALERT_TESTED = "alert_tested"
    EXPORTED = "exported"
    EXPORT_FORGOTTEN = "export_forgotten"
    SHARE_CREATED = "share_created"
    SHARE_REVOKED = "share_revoked"
    RECEIPT_CREATED = "receipt_created"
    RECEIPT_REVOKED = "receipt_revoked"
    WEBHOOK_CREATED = "webhook_created"
    WEBHOOK_CHANGED = "webhook_changed"
    WEBHOOK_DELETED = "webhook_deleted"
