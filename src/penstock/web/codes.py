"""Every stable error code, with its meaning and remedy. A test compares them with the source
code.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.events import plugin as events
from penstock.funnels import plugin as funnels


@dataclass(frozen=True, slots=True)
class Code:
    """An error code. status: HTTP status of a problem; empty for an error of a field in a 422 or
    400.
    """

    name: str
    status: str
    meaning: str


def _codes(table: str) -> tuple[Code, ...]:
    """Parse a table of codes. Each line has a name, a status or `-`, and a meaning, which indented
    lines continue.
    """
    rows = (line.split(maxsplit=2) for line in table.replace("\n  ", " ").strip().splitlines())
    return tuple(
        Code(name, "" if status == "-" else status, " ".join(meaning.split()))
        for name, status, meaning in rows
    )


def _too_many() -> Iterator[Code]:
    """Yield the codes of errors for too many named records."""
    for service in (*events.RECORDS.values(), *funnels.RECORDS.values()):
        if service.maximum is not None:
            meaning = f"The workspace has the maximum number of {service.noun}s. Delete one."
            yield Code(service.too_many_code(), "409", meaning)


PROBLEMS = _codes("""
malformed               400 The request cannot be read. The detail says where.
malformed_request       400 The request is not valid HTTP, or not what the route expects.
not_json                400 The body is not valid JSON: wrong syntax, not UTF-8, nested too deep,
  or a number that JSON does not have.
bad_gzip                400 Content-Encoding is gzip, but the body is not valid gzip.
bad_parameter           400 A query parameter is unknown, repeated or out of range; errors lists
  each.
too_many_parameters     400 The URL has more than 100 query parameters. Send fewer.
too_many_proxies        400 X-Forwarded-For exceeds the published size limit.
too_many_links          400 More links match than a CSV file may have. Choose fewer.
cohort_too_large        400 The cohort would have more visitors than it may have. Choose a shorter
  period or a filter.
cohort_not_usable       400 The rule of a saved cohort can no longer be evaluated; the detail says
  why.
too_many_units          400 More units match than a file may have. Choose a shorter period or a
  filter.
unknown_identity_contract 400 The header x-service-identity-contract has an unknown value. Leave it
  out.
unauthorized            401 The request has no valid API key or session.
key_required            401 The call needs an API key: Authorization: Bearer <key>.
key_not_valid           401 The API key is unknown, revoked or expired. Create a new one in the
  settings.
write_key_required      401 The call needs a write key: as the user of Basic authentication, or as
  writeKey in the body.
bad_signature           401 The webhook has no signature, a signature with an unknown secret, or one
  that is older than five minutes.
not_an_event            401 The webhook's signature is valid, but its body is not a readable event.
website_not_owned       401 The websiteId does not belong to the key's workspace. Check both.
owners_only             403 Only owners of the workspace may see this.
not_signed_in           401 The call needs the session cookie: log in first.
wrong_login             401 The email address or the password is wrong.
second_factor_required  401 The password is right, but logging in also requires a code.
  Send it to /api/auth/login/code.
wrong_login_code        401 The code of the second factor is wrong or has already been used.
log_in_expired          401 The log-in took too long, or had too many wrong codes. Log in again.
session_ended           401 The session has expired or was logged out. Log in again.
forbidden               403 The caller does not have permission to do this.
session_required        403 Only a person may do this: log in and use the session cookie instead of
  an API key.
foreign_origin          403 A call with the session cookie came from another origin. Call from the
  dashboard's own pages, or use an API key.
scope_missing           403 The API key lacks the scope of this route. The detail names it.
units_not_shared        403 The workspace shares no single units with assistants. Its settings can
  allow them.
values_not_shared       403 The workspace does not share values of this property with assistants.
not_a_write_key         403 The API key may do more than send events of one website. Create a key
  for one website with the scope ingest.
website_not_of_key      403 The API key is for another website.
setup_token_required    403 The first account is created on the machine itself, or with the setup
  token that serve printed.
owner_required          403 Only an owner of the workspace may do this.
viewer_role             403 A viewer may only read. Ask an owner to make you a member.
invitation_for_another  403 The invitation is for a different email address than the account's.
signup_closed           403 Sign-up is closed. The operator opens it with PENSTOCK_SIGNUP_OPEN.
sign_on_invalid         401 The identity provider did not confirm the person's identity.
sign_on_refused         401 The identity provider did not log the person in.
sign_on_expired         401 Single sign-on took longer than ten minutes, or was started in another
  browser. Try again.
sign_on_unknown_user    403 The person has no account here. An owner can invite them.
sign_on_email_not_verified 403 The identity provider does not confirm the email address.
sign_on_domain_not_allowed 403 The email address is not in a domain that may log in.
own_second_factor       403 Owners reset the second factor of other members, and turn off their
  own in their account.
not_found               404 This workspace has no such record, or the URL does not exist.
invitation_not_found    404 The invitation does not exist: it was used, replaced, withdrawn, or has
  expired. Ask for a new one.
app_not_found           404 The websiteId is not a mobile app of the workspace.
sign_on_not_set_up      404 No identity provider is set up.
confirmation_not_found  404 The link that confirms an address has already been used, is older than a
  day, or is for another account. Request a new one.
share_not_found         404 The link to a shared report is wrong, has expired or was revoked. Ask
  the person who sent it for a new one.
reset_not_found         404 The link for a new password has already been used or is older than an
  hour.
  Request a new one.
visitor_not_found       404 There is no such visitor, or it was deleted.
no_summary              404 The import has no summary, because it had no dry run.
unit_not_found          404 No event of this attempt or visitor is retained.
event_not_found         404 No event with this ID is retained, or its time is in the future.
method_not_allowed      405 The URL exists but does not accept this method; Allow lists the methods
  that it accepts.
conflict                409 The change conflicts with existing data.
other_draft             409 The definition is not the one of the draft. Draft it again first.
email_taken             409 The email address already has an account. Log in instead.
already_member          409 A member of the workspace already has this email address.
last_owner              409 A workspace needs an owner. Make another member an owner first.
mail_not_set_up         409 Email is not set up, so Penstock cannot send a link. For a new
  password, its operator can run penstock reset-password.
email_not_confirmed     409 Confirm your email address first: the dashboard offers a link.
email_confirmed         409 Your email address is already confirmed.
second_factor_on        409 The second factor is already on. Turn it off first.
second_factor_off       409 The user has no second factor.
second_factor_not_begun 409 No second factor is being set up. Start again.
member_elsewhere        409 The member is also in other workspaces, so only the operator may do
  this.
name_taken              409 Another record has this name. Choose another name.
stale_revision          409 The record was changed since it was read. Read it again and repeat the
  change.
annotation_differs      409 An annotation has this ID and other values. Change it with PATCH, or
  choose another ID.
figures_only            409 The workspace shares figures only, and the messages of webhooks name
  units. Its settings can allow it.
too_many_webhooks       409 The workspace has the maximum number of webhooks. Delete one.
too_many_annotations    409 The workspace has the maximum number of annotations. Delete one.
slug_taken              409 Another link, possibly a disabled one, has this slug. Choose another
  slug.
goal_gone               409 The definition uses a goal that was renamed or deleted.
cohort_gone             409 The definition names a saved cohort that was deleted; the detail has its
  ID. Take it out of the steps and the breakdown.
cohort_in_use           409 Funnels name the saved cohort; the detail names them. Change them first.
definition_too_costly   409 The filters of the saved funnel and of its goals cost more than is
  allowed; the detail says which to drop.
definition_not_readable 409 A filter of the saved funnel, or of a goal that it uses, is no longer
  valid; errors names each. Correct it and save.
too_many_cohorts        409 The workspace has the maximum number of saved cohorts. Delete one.
too_many_shares         409 The workspace has the maximum number of shared reports. Revoke one.
too_many_receipts       409 The workspace has the maximum number of receipts. Revoke one.
receipt_key_unknown     409 The service does not have the key of this receipt, for example because
  it was restored from an older backup. Open the receipt at the service that made it.
too_many_alerts         409 The workspace has the maximum number of alerts. Delete one.
too_many_destinations   409 The workspace has exports to the maximum number of destinations.
  Forget one.
too_many_secrets        409 Too many signing secrets of one provider are valid. Revoke earlier ones
  with previousValidSeconds 0.
import_not_finished     409 The import is not finished, so it cannot be undone, and its gap cannot
  be dismissed yet.
import_undone           409 The import was undone before, so nothing of it is left to count.
import_not_undoable     409 The import began with a version that did not record what each import
  stores. Delete its period, or import into a new website.
import_finished         409 The import is finished, so it cannot be started or cancelled.
too_many_dry_runs       409 Too many files of imports wait for their start. Start or cancel one; the
  detail names it.
import_not_checked      409 The dry run of the import has not ended. Wait, or cancel the import.
mapping_not_checked     409 The dry run of the import has used another mapping; the detail names
  the differences. Change the mapping of the import, which checks the file again.
import_started          409 The import was already started.
no_gap                  409 The import left no gap in the coverage of reports.
job_not_finished        409 The job has no result yet. Poll its state until it is done or failed.
job_cancelled           409 The job was cancelled and has no result. Send the request again.
result_too_large        413 The result of a job has more than 256 MB. Send the request without
  Prefer: respond-async, or query less.
goal_in_use             409 Funnels use the goal; the detail names them. Change them first.
too_large               413 The body exceeds a published size limit. Send less at once.
not_ndjson              415 The file of an import is not NDJSON. Send UTF-8 text with one JSON
  object per line.
not_ga4                 415 The file of an import is not a BigQuery export of Google Analytics 4.
not_parquet             415 The file of an import does not begin like Parquet.
not_csv                 415 The file of an import is not CSV whose first row names the fields of an
  event.
not_mixpanel            415 The file of an import is not the raw event export of Mixpanel.
not_amplitude           415 The file of an import is not the archive of Amplitude's Export API.
not_segment             415 The file of an import has no calls of Segment or RudderStack.
not_posthog             415 The file of an import is not an export of events from PostHog.
too_many_gzip_members   413 The body has more than 16 gzip members. Compress it as one.
unsupported_media_type  415 Send JSON with Content-Type: application/json, plain or as gzip.
invalid                 422 The input is JSON but breaks rules; errors lists all of them.
daily_quota_used        429 The website has stored its quota of events without a key today (UTC).
rate_limited            429 Too many requests. Retry-After says when to retry.
internal_error          500 Penstock had an internal error. The service log has the details.
request_timeout         408 The headers or the body took too long to arrive. Send faster.
headers_too_large       431 The headers exceed the published limits of size and number. Send
  fewer cookies.
path_too_long           414 The path of the URL exceeds the published size limit.
too_many_connections    503 Too many connections or requests at once. Reuse connections, and retry
  after Retry-After.
unavailable             503 A database does not respond. Nothing was stored; try again.
query_timeout           503 The query exceeded the time limit of the workspace. Query less, or raise
  the limit.
query_too_large         503 The query exceeded the memory limit of the workspace. Query less, or
  raise the limit.
busy                    503 Too many requests are waiting, from this workspace, this network or
  overall; nothing was done. Retry-After says when to retry.
events_wait             503 Some events wait for the event store, and a receipt needs all events
  that were received before it. Retry-After says when to retry.
share_not_available     503 The shared report cannot be computed at the moment. Try again in a
  minute.
too_many_jobs           503 The workspace has too many unfinished jobs. Wait, or cancel one.
job_interrupted         503 The service stopped before the job had finished. Send the request again.
too_many_imports        503 The workspace has too many uploads or unfinished imports. Wait, or
  cancel one.
store_unavailable       503 The metadata database does not respond; nothing was stored. Try again.
store_damaged           503 The metadata database is damaged; nothing was stored. The operator must
  restore a backup.
overloaded              503 Too many events are waiting to be stored, or too many large bodies
  to be read; nothing was stored. Retry-After says when to retry.
stopping                503 The service is stopping; nothing was stored. Try again in a moment.
sign_on_unavailable     503 The identity provider is not responding right now.
secret_key_missing      503 A signing secret was encrypted with a key that this node does not have.
disk_low                507 The disk of the service has too little free space for uploads, exports
  and results of jobs; nothing was done. Cancel imports that nobody needs, or ask the operator.
workspace_disk_full     507 The workspace's waiting files are too large together; nothing was done.
  Start or cancel an import, or delete results of jobs.
folder_unavailable      503 The data folder cannot store the file of an import. The operator must
  check the disk.
warehouse_unavailable   503 The event store does not respond right now. Try again.
warehouse_right_missing 503 The event store denies Penstock a privilege that it needs. The operator
  must grant it; the log and `/health/ready` name it.
warehouse_damaged       503 The event store cannot read some of its files. The operator must restore
  a backup.
request_refused         4xx The server rejected the request before it reached a route.
""") + tuple(_too_many())

FAULTS = _codes("""
required                - The field is required.
unknown_field           - There is no such field. Check the spelling.
wrong_type              - The value does not have the JSON type of the field.
not_one_of              - The value is not one of those in the message.
not_finite              - The number is not finite, or it is too large.
not_null                - Null is not allowed; leave the field out.
has_credentials         - The name of a destination contains a user name or password.
not_allowed             - The field cannot be combined with another; the message says which.
identity_required       - Send visitorId or userId, or both.
identity_ambiguous      - Two fields name the user differently; send one of them.
target_required         - A deletion needs visitorId, userId, or from and to.
stands_for_nobody       - The ID is a placeholder such as `null` or `anonymous`, not an ID.
session_id_not_accepted - A server event has no sessionId; send externalSessionId.
alias_differs           - A field and its alias have different values; send one of them.
given_twice             - The same value is sent in two places; send it in one.
not_for_type            - Items of this type do not have the field.
too_precise             - The number has too many decimals.
cannot_receive          - The member cannot receive emails; the message says why.
no_window               - The funnel has no conversion window, so its rate is never final.
no_events               - No event with this name was received.
needs_manage            - Lines of type stored need a key with the permission manage.
unknown_funnel          - This workspace has no such funnel.
unknown_website         - There is no such website.
not_a_time              - The value is not an ISO 8601 time with an offset, nor epoch milliseconds.
not_a_date              - The value is not a date such as 2026-11-20.
before_1970             - Times before 1970 are not accepted.
timestamp_in_future     - The time is too far ahead of the server's clock.
not_a_path              - A page path begins with a slash.
not_a_count             - The value is not a whole number from 1 to 1,000,000,000.
not_a_currency          - The value is not an ISO 4217 code.
reserved_property       - Property names that begin with $ are reserved.
too_many_keys           - The properties have too many keys.
too_many_property_keys  - The website has too many different property keys; send the variable
  part as a value instead of a key.
not_replayable          - The entry has no content that could be sent again.
refused_by_event_store  - The event was accepted, but the event store refuses its row.
too_many_values         - The body, event or line has too many JSON values, nested ones included.
too_deep                - The properties are nested too deep.
integer_out_of_range    - The integer does not fit into 64 bits; send it as a string.
nul_character           - The NUL character is not allowed.
too_large               - The event or line exceeds the size limit.
too_many_faults         - The body has too many errors to list.
too_short               - The text is empty, blank or too short.
too_long                - The text is too long.
too_few                 - The list has too few items.
too_many                - The list has too many items.
greater_than_equal      - The number is below the minimum.
less_than_equal         - The number is above the maximum.
repeated                - The same value is listed twice.
control_character       - Control characters such as NUL or line breaks are not allowed.
hidden_character        - The name has invisible characters or characters that turn the direction
  of text.
in_the_past             - The time must be in the future.
wrong_signature         - The signature was not made with a secret of the website.
wrong_password          - This is not the current password.
wrong_code              - The code is wrong or has already been used.
not_verified            - The receipt was changed, or no key of this service has signed it.
not_an_id               - The ID has other characters than those in the message, or too many.
not_an_email            - The value is not an email address.
not_a_domain            - The value is not a host name.
not_a_secret            - The value is not a signing secret as the provider shows it.
not_a_url               - The value is not a usable URL.
credentials_in_url      - The URL has a user name or a password.
private_host            - The URL leads to this machine or a private network.
  PENSTOCK_LINKS_TO_PRIVATE_HOSTS allows it.
not_stored              - The outcomes of the funnel cannot be stored, so webhooks do not know
  when they change. The message says why.
url_not_allowed         - Webhooks cannot go to the URL; the message says why.
  PENSTOCK_OUTBOUND_NETWORKS allows private networks.
leads_back              - The URL leads back to the host of the links.
not_a_slug              - The value is not a slug: lowercase letters, digits and hyphens.
unknown_column          - A CSV file has a column that is unknown, or lacks a required one.
not_csv                 - The file or one of its rows is not CSV.
too_many_cells          - A row of a CSV file has more cells than the header.
unknown_value           - The value is not one of the values that the message names.
not_utf8                - The file is not in UTF-8.
slug_taken              - A link of another workspace has this slug.
app_not_found           - The workspace has no app with this ID.
unknown_link            - No link has this ID and this slug.
not_a_tag               - The value is empty or contains a comma.
reserved_slug           - The word is reserved.
not_a_route             - The value is not a route in the app that begins with one slash.
outer_space             - The value begins or ends with a space.
bidi_control            - Characters that change the direction of text are not allowed.
not_a_bundle_id         - The value is not an iOS bundle ID.
not_a_team_id           - The value is not an Apple team ID.
not_a_package           - The value is not an Android package name.
not_a_fingerprint       - The value is not a SHA-256 certificate fingerprint.
not_a_scheme            - The value is not the URL scheme of an app.
only_mobile             - Only websites of kind mobile have this field.
too_few_steps           - A funnel needs at least two required steps.
too_many_steps          - A funnel has at most 20 required steps.
too_costly              - The filters together cost more than is allowed. The message says what
  each costs and which to drop.
too_many_matches        - A funnel has too many matches, including those of its `or` rows.
not_a_name              - The name of a screen, event or transaction cannot contain *, which stands
  for any characters only in the path of a Pageview.
misplaced               - The row cannot be at this position; the message says where it may be.
identical_parts         - Two parts of an all_of group match the same events.
window_required         - An attempt funnel needs a finite conversion window.
funnel_not_found        - There is no funnel with this ID; it may have been deleted.
goal_not_found          - There is no goal with this name.
cohort_not_found        - There is no saved cohort with this ID; it may have been deleted.
cohort_of_cohort        - A rule cannot depend on another cohort.
segment_not_found       - There is no segment with this ID; it may have been deleted.
goal_of_goal            - A goal cannot refer to a goal.
bad_regex               - The value is not a regular expression in RE2 syntax.
bad_number              - The filter value is not a decimal number.
bad_range               - The filter value is not a list of two numbers, the smaller first.
bad_list                - The filter value is not a JSON list of scalars in a string.
value_not_allowed       - This operator has no value.
operator_not_allowed    - The property does not have this operator.
looks_like_seconds      - The number is a time in seconds; send epoch milliseconds or ISO 8601.
not_an_offset           - The offset of a device's clock is not a whole number of milliseconds.
too_many_apps           - The workspace has the maximum number of mobile apps.
looks_like_microseconds - The number is a time in microseconds; send epoch milliseconds or ISO 8601.
mapping_not_found       - There is no saved mapping with this ID; it may have been deleted.
time_required           - A mapping needs a column with the time.
not_a_time_format       - The value is not a format of times, such as %d.%m.%Y %H:%M:%S.
not_in_mapping          - The mapping does not list a part of the line, and has no otherColumns.
not_for_use             - A column with this use does not have the field.
not_for_unit            - Only times with the unit text have a format.
not_for_format          - Files of this format cannot have a mapping.
not_both                - A mapping has either a column with event names or one event name.
out_of_range            - The number or time is outside the allowed range; the message names it.
read_only               - The field cannot be changed; omit it or send the stored value.
needs_start             - endAt was sent without startAt.
needs_tool              - mode or shown was sent without countLike.
rule_not_counted        - The other tool's rule for a part of this funnel is unknown, or not counted
  yet; the message names it.
needs_end               - startAt was sent without endAt.
unknown_revision        - The funnel has no such revision.
not_earlier             - compareStartAt is not before startAt.
other_length            - The two periods do not have as many calendar days.
ends_before_start       - The period ends before it starts.
not_an_object           - The value is not a JSON object.
not_a_list              - The value is not a list: names separated by commas, or a JSON array.
not_a_window            - The value is not a length of one minute to 366 days, such as 30m.
needs_window            - Units of this funnel never settle, because it has no conversion window.
unknown_timezone        - There is no time zone with this name; send an IANA name.
does_not_fit            - The parameter is well-formed, but does not fit this funnel.
not_a_breakdown         - The property is not a breakdown property of the funnel.
not_a_scalar            - The value is not a scalar or null; in a query, it is not a scalar in JSON.
too_many_links          - More links were clicked in the period than a report by link can have.
unknown_cohort          - No unit entered with this value.
unknown_builtin         - There is no such built-in event field.
builtin_not_allowed     - A built-in event field is not allowed; use a property of the event.
""")

WARNINGS = _codes("""
identity_conflict       - visitorId and userId belong to different people; the event was stored, but
  nothing was merged.
too_many_visitors       - Too many visitors belong to this user, so a claim without proof was
  stored but not linked.
placeholder_id          - An ID such as `null` or `anonymous` was stored as sent; it is never linked
  or merged.
body_differs            - A repeat differs from the first event with its ID; the first event stays.
event_deleted           - A repeat of an event whose visitor was deleted; it is not stored again.
id_was_a_number         - An ID was a number; it was stored as its decimal text.
country_not_iso         - country is not a two-letter code of ISO 3166-1; it was stored as sent.
text_cut                - A path, URL, referrer, title or campaign parameter was too long; it was
  cut.
""")
