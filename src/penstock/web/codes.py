"""Every stable error code, with what it means and what to do. A test holds this list against the source."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """status: the HTTP status of a problem; empty for a fault, which stands inside a 422 or 400."""

    name: str
    status: str
    meaning: str


def _codes(table: str) -> tuple[Code, ...]:
    """One code a line: name, status or -, meaning."""
    rows = (line.split(maxsplit=2) for line in table.strip().splitlines())
    return tuple(Code(name, "" if status == "-" else status, meaning) for name, status, meaning in rows)


PROBLEMS = _codes("""
malformed               400 The request cannot be read. The detail says where.
malformed_request       400 The request cannot be read as HTTP or as what the route takes.
not_json                400 The body is not valid JSON: wrong syntax, not UTF-8, nested too deep, or a number JSON does not have.
bad_gzip                400 Content-Encoding says gzip, but the body is not, or ends too early.
bad_parameter           400 A query parameter is unknown, repeated or out of range; errors names each.
unknown_identity_contract 400 The header x-service-identity-contract has a value that is not known. Leave it out.
unauthorized            401 There is no valid API key or session for what is asked.
key_required            401 The call needs an API key: Authorization: Bearer <key>.
key_not_valid           401 The API key is unknown or revoked. Make a new one in the settings.
bad_signature           401 The webhook is not signed, not with a secret of this website, or not within the last five minutes.
not_an_event            401 The webhook's signature is right, but its body is no event that can be read.
website_not_owned       401 The websiteId is not one of the key's workspace. Check both.
not_signed_in           401 The call needs the session cookie: log in first.
wrong_login             401 The e-mail address or the password is wrong.
session_ended           401 The session has expired or was logged out. Log in again.
forbidden               403 The caller is known but may not do this.
session_required        403 Only a person may do this: log in and use the session cookie instead of an API key.
foreign_origin          403 A call with the session cookie came from another origin. Call from the dashboard's own pages, or use an API key.
setup_token_required    403 The first account is made from the machine itself, or with the setup token that serve printed.
owner_required          403 Only an owner of the workspace may do this.
invitation_for_another  403 The invitation is for another e-mail address than the account's.
signup_closed           403 Sign-up is closed. The operator opens it with PENSTOCK_SIGNUP_OPEN.
not_found               404 There is no such record in this workspace, or nothing at this address.
invitation_not_found    404 There is no such invitation: it was used, replaced, withdrawn, or has expired. Ask for a new one.
app_not_found           404 The websiteId is not that of a mobile app of the workspace.
visitor_not_found       404 There is no such visitor, or it was deleted.
unit_not_found          404 No event of this attempt or visitor is retained.
event_not_found         404 No event of this ID is retained, or its time has not come yet.
method_not_allowed      405 The address exists but does not take this method; Allow lists those that it takes.
conflict                409 The change does not go together with what exists.
email_taken             409 The e-mail address has an account already. Log in.
already_member          409 A member of the workspace has this e-mail address.
last_owner              409 A workspace needs an owner. Make another member one first.
name_taken              409 Another record has this name. Choose another.
slug_taken              409 A link has this slug already, maybe a disabled one. Choose another.
goal_gone               409 The definition uses a goal of which there is none any more: it was renamed or deleted since.
too_many_secrets        409 Too many signing secrets of one provider are in force. End the earlier ones with previousValidSeconds 0.
job_not_finished        409 The job has no answer yet. Ask for its state until it is done or failed.
job_cancelled           409 The job was cancelled and has no answer. Ask again.
goal_in_use             409 Funnels use the goal; the detail names them. Change them first.
too_large               413 The body is over a published limit of size. Send less at once.
unsupported_media_type  415 Send JSON with Content-Type: application/json, plain or as gzip.
invalid                 422 The input is JSON but breaks rules; errors has every one of them.
rate_limited            429 Too many requests. Retry-After says when to come back.
internal_error          500 A fault of Penstock's; its log has the details.
unavailable             503 A store does not answer. Nothing was kept; try again.
query_timeout           503 The query took longer than a query of the workspace may. Ask for less, or raise the limit.
query_too_large         503 The query needed more memory than a query of the workspace may. Ask for less, or raise the limit.
too_many_jobs           503 Too many jobs of the workspace are not finished. Wait, or cancel one.
store_unavailable       503 The metadata database does not answer right now; nothing was kept. Try again.
overloaded              503 More events wait than can be stored at once; nothing was kept. Retry-After says when to come back.
stopping                503 The service is stopping; nothing was kept. Try again in a moment.
folder_unavailable      503 The data folder cannot take an import's file; the operator must look at the disk.
warehouse_unavailable   503 The event store does not answer right now. Try again.
request_refused         4xx The server refused the request before any route saw it.
""")

FAULTS = _codes("""
required                - The field must be sent.
unknown_field           - There is no such field. Check the spelling; the API refuses what it would otherwise drop.
wrong_type              - The value has another JSON type than the field.
not_one_of              - The value is not one of those the message lists.
not_finite              - The number is not finite or too large.
not_null                - Null is not possible here; leave the field out.
not_allowed             - The field does not go together with another; the message says which.
identity_required       - Send visitorId or userId, or both.
identity_ambiguous      - Two fields name the user differently; send one of them.
target_required         - A deletion needs visitorId, userId, or from and to.
stands_for_nobody       - The ID is a placeholder such as `null` or `anonymous`; it stands for nobody.
session_id_not_accepted - A server event takes no sessionId; send externalSessionId.
alias_differs           - A field and its alias have different values; send one of them.
given_twice             - The same thing is told in two places; send it in one.
not_for_type            - Items of this type do not have the field.
unknown_website         - There is no such website.
not_a_time              - The value is not an ISO 8601 time with an offset, nor epoch milliseconds.
before_1970             - Times before 1970 are not taken.
timestamp_in_future     - The time lies too far ahead of the server's clock.
not_a_path              - A page path begins with a slash.
not_a_currency          - The value is not an ISO 4217 code.
reserved_property       - Property names with $ are Penstock's own.
too_many_keys           - The properties have too many keys.
too_deep                - The properties nest too deep.
integer_out_of_range    - The integer does not fit into 64 bits; send it as a string.
nul_character           - The NUL character is not possible here.
too_large               - The event or line is larger than allowed.
too_short               - The text is empty, blank or too short.
too_long                - The text is too long.
too_few                 - The list has too few items.
too_many                - The list has too many items.
greater_than_equal      - The number is below the least allowed.
less_than_equal         - The number is above the greatest allowed.
repeated                - The same thing is named twice.
control_character       - Control characters such as NUL or line breaks are not possible here.
wrong_password          - The current password is another.
not_an_email            - The value is not an e-mail address.
not_a_domain            - The value is not a host name.
not_a_secret            - The value is not a signing secret as the provider shows it.
not_a_url               - The value is not a usable URL.
credentials_in_url      - The URL has a user name or a password.
private_host            - The URL leads to this machine or into a private network. PENSTOCK_LINKS_TO_PRIVATE_HOSTS allows it.
leads_back              - The URL leads back to the host of the links.
not_a_slug              - The value is not a slug: lower-case letters, digits and hyphens.
reserved_slug           - The word is reserved.
not_a_route             - The value is not a route inside the app that begins with one slash.
outer_space             - The value begins or ends with a space.
bidi_control            - Characters that change the direction of text are not possible here.
not_a_bundle_id         - The value is not an iOS bundle ID.
not_a_team_id           - The value is not the ID of an Apple team.
not_a_package           - The value is not an Android package name.
not_a_fingerprint       - The value is not a SHA-256 certificate fingerprint.
not_a_scheme            - The value is not a URL scheme of an app.
only_mobile             - Only websites of kind mobile have this field.
too_few_steps           - A funnel needs at least two required steps.
too_many_steps          - A funnel has at most 20 required steps.
too_many_matches        - A funnel has too many matches, or rows included.
first_row_diagnostic    - The first row must be a required step.
diagnostic_group        - A diagnostic row cannot be all_of.
identical_parts         - Two parts of one all_of group ask for the same.
window_required         - An attempt funnel needs a finite conversion window.
goal_not_found          - There is no goal of this name.
goal_of_goal            - A goal cannot refer to a goal.
bad_regex               - The regular expression is not one that RE2 runs.
bad_number              - The filter value is not a decimal number.
bad_range               - The filter value is not a list of two numbers, the smaller first.
bad_list                - The filter value is not a JSON list of scalars in a string.
value_not_allowed       - This operator takes no value.
out_of_range            - The time is not one that events can have.
needs_start             - endAt was given without startAt.
needs_end               - startAt was given without endAt.
unknown_revision        - The funnel has no such revision.
ends_before_start       - The period ends before it starts.
not_an_object           - The value is not a JSON object.
trace_too_long          - The unit has more events than a trace takes.
unknown_timezone        - There is no time zone of this name; give an IANA name.
does_not_fit            - The parameter is well-formed, but does not fit this funnel.
not_a_breakdown         - The property is no breakdown property of the funnel.
not_a_scalar            - The value is not a scalar or null; in a query, it is not one as JSON.
unknown_cohort          - No unit entered with this value.
unknown_builtin         - There is no such built-in event field.
builtin_not_allowed     - A built-in event field is not possible here; name a property of the event.
""")

WARNINGS = _codes("""
identity_conflict       - visitorId and userId belong to different people; the event was stored, but nothing was merged.
placeholder_id          - An ID such as `null` or `anonymous` was stored as sent; it is never linked or merged.
body_differs            - A repeat differs from the first event under its ID; the first one stays.
event_deleted           - A repeat of an event whose visitor was deleted since; it is not stored again.
""")
