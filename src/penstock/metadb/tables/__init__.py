"""All tables of the metadata DB. Times are milliseconds since 1970-01-01 UTC, and IDs are opaque
text.

The indexes that queries need are defined here. Migrations create exactly these tables; a test
compares both, including the comments that PostgreSQL stores. Comments in Python can change without
a migration.
"""

from penstock.metadb.tables.accounts import (
    api_keys,
    audit_entries,
    email_confirmations,
    identity_secrets,
    installation,
    invitations,
    known_networks,
    memberships,
    password_resets,
    pending_log_ins,
    recovery_codes,
    second_factors,
    sessions,
    setup_tokens,
    users,
    websites,
    workspaces,
)
from penstock.metadb.tables.background import job_responses, jobs, outcome_claims
from penstock.metadb.tables.base import metadata
from penstock.metadb.tables.cohorts import cohort_visitors, saved_cohorts
from penstock.metadb.tables.definitions import (
    funnel_goals,
    funnel_revisions,
    funnels,
    goals,
    internal_traffic,
    segments,
)
from penstock.metadb.tables.identity import merges, open_releases, user_links, visitors
from penstock.metadb.tables.intake import (
    click_buffer_files,
    daily_events,
    dedupe_keys,
    device_clocks,
    event_counts,
    event_ledger,
    losses,
    lost_events,
    outbox,
    property_keys,
    quarantine,
    shipments,
)
from penstock.metadb.tables.managed_links import (
    link_clicks,
    link_matches,
    link_revisions,
    link_tags,
    links,
    match_keys,
    visitor_touches,
)
from penstock.metadb.tables.providers import provider_customers, provider_secrets
from penstock.metadb.tables.transfers import (
    deletion_websites,
    deletions,
    exports,
    import_mappings,
    import_rejects,
    import_summaries,
    imports,
)
