"""Use cases for the tracking protocol: checking the write key, and parsing and storing calls."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from penstock.accounts.identity_secrets.service import IdentitySecretService
from penstock.accounts.keys.service import KeyService
from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import Fault, Forbidden, Invalid, Unauthorized
from penstock.base.event_limits import MAX_BATCH_EVENTS
from penstock.base.user_agent import MAX_CHARS
from penstock.core import Core
from penstock.events.batch import ItemResult, within_body_limit
from penstock.events.fields import EventValidationContext
from penstock.events.intake import Intake
from penstock.events.model import NewEvent, Receipt, Refusal, Rejected
from penstock.events.quarantine.model import QuarantineEntry
from penstock.events.quarantine.service import MAX_PER_BODY, QuarantineService, content_of
from penstock.events.service import EventService
from penstock.events.transaction import Outcome
from penstock.http.lists import EVENT_LIST, UnreadList, parse_object_with_list
from penstock.http.scopes import KeyScope
from penstock.identity.model import Claim, Notice, Resolution
from penstock.segment.calls import CallContext, read_call
from penstock.segment.model import CallResult, Post, Sender
from penstock.segment.replays import is_event, replay_sender

BATCHES = ("batch", "import")
_WRITE_KEY_SCOPES = frozenset((KeyScope.INGEST,))


class SentCalls(NamedTuple):
    """The calls in a body.

    path: the URL path, shown in the quarantine. user_agent: the request's user agent; empty for a
    trusted sender. unread: the unvalidated calls. defaults: values for fields that a call omits.
    fixed: values that override the fields of every call.
    """

    sender: Sender
    path: str
    user_agent: str
    unread: Sequence[Any]
    defaults: Mapping[str, Any]
    fixed: Mapping[str, Any]

    def read(self, index: int) -> Any:
        """Return the call at this position, without its write key, which may be secret.

        Raises `Invalid` if the call is too large.
        """
        call = self.unread[index]
        if not isinstance(call, dict):
            return call
        fields = {**self.defaults, **call, **self.fixed}
        fields.pop("writeKey", None)
        return fields


class ReadCalls(NamedTuple):
    """Events and claims from valid calls, and faults of invalid calls, by position in the body.

    A valid call with nothing to store is in neither `valid` nor `rejected`.
    """

    valid: Mapping[int, NewEvent | Claim]
    rejected: dict[int, ItemResult]


class SegmentService:
    """Stores calls from Segment and RudderStack clients."""

    def __init__(
        self,
        core: Core,
        keys: KeyService,
        websites: WebsiteService,
        identity_secrets: IdentitySecretService,
        events: EventService,
        intake: Intake,
        quarantine: QuarantineService,
    ) -> None:
        self._keys, self._websites, self._identity_secrets = keys, websites, identity_secrets
        self._events, self._intake, self._quarantine = events, intake, quarantine
        self._validation, self._clock = core.validation, core.clock

    async def sender(self, write_key: object) -> Sender:
        """Return the website of a write key.

        Raises `Unauthorized` if the key is unknown, and `Forbidden` if it is an API key with more
        rights than necessary.
        """
        if not isinstance(write_key, str) or not write_key:
            raise Unauthorized(
                "Send the write key as the user name of Basic authentication, or as writeKey.",
                code="write_key_required",
            )
        if website := await self._websites.find_website_async(write_key):
            return Sender(website, is_trusted=False)
        try:
            caller = await self._keys.authenticate(f"Bearer {write_key}")
        except Unauthorized:
            raise Unauthorized(
                "The write key is neither the ID of a website nor a valid API key.",
                code="key_not_valid",
            ) from None
        if caller.website_id is None or caller.scopes != _WRITE_KEY_SCOPES:
            raise Forbidden(
                "An API key works as a write key only if it is limited to one website and to the "
                "scope ingest. Create one under Settings, API keys.",
                code="not_a_write_key",
            )
        website = await self._websites.find_website_async(caller.website_id)
        if website is None:
            raise Unauthorized("The website of this API key was deleted.", code="key_not_valid")
        return Sender(website, is_trusted=True)

    async def store(self, post: Post) -> list[CallResult]:
        """Store a body's valid calls in one transaction. Returns the results in the order of the
        body.

        Raises `Malformed` or `Invalid` if the body does not contain calls.
        """
        limits = EVENT_LIST
        raw = await self._events.parse(
            post.body, post.address, parse_object_with_list, "batch", limits
        )
        sender = await self.sender(post.write_key or raw.get("writeKey"))
        workspace_id = sender.website.workspace_id
        try:
            sent = self._sent_calls(post, sender, raw)
        except Invalid as error:
            entry = self._entry(sender, post.path, error.faults)
            await self._quarantine.record([Refusal(entry, is_event=False)])
            raise
        number = len(sent.unread)
        self._events.count_items(sender.website, number, is_public=not sender.is_trusted)
        context = CallContext(
            sender,
            EventValidationContext(self._clock(), batch=object()),
            await self._identity_secrets.verifier(sender.website.id),
            sent.user_agent,
        )
        calls = await self._validation.run(workspace_id, _read_calls, sent, context)
        outcomes = await self._store(sent, calls)
        return [
            CallResult(calls.rejected.get(index), _warnings(sender, outcomes.get(index)))
            for index in range(number)
        ]

    async def _store(self, sent: SentCalls, calls: ReadCalls) -> Mapping[int, Outcome]:
        """Store the valid calls. Returns their outcomes by position.

        Adds calls that the intake rejects to `calls.rejected`.
        """
        refusals = list[Refusal]()
        if calls.rejected:
            workspace_id = sent.sender.website.workspace_id
            refusals = await self._validation.run(
                workspace_id, self._refusals, sent, calls.rejected
            )
        stored: Sequence[Outcome] = []
        if calls.valid or refusals:
            stored = await self._intake.store([*calls.valid.values(), *refusals])
        # `stored` also contains refusals, if any, which come last
        outcomes = dict(zip(calls.valid, stored, strict=False))
        rejected = {
            index: ItemResult(None, (outcome.fault,))
            for index, outcome in outcomes.items()
            if isinstance(outcome, Rejected)
        }
        if rejected:
            await self._quarantine.read_and_record(
                sent.sender.website.workspace_id, partial(self._refusals, sent, rejected)
            )
        calls.rejected.update(rejected)
        return outcomes

    def _sent_calls(self, post: Post, sender: Sender, raw: dict[str, Any]) -> SentCalls:
        """Return the calls in a body, with their type and send time filled in."""
        user_agent = "" if sender.is_trusted else post.user_agent[:MAX_CHARS]
        if post.call_type not in BATCHES:
            return SentCalls(sender, post.path, user_agent, [raw], {}, {"type": post.call_type})
        calls, limit = raw.get("batch"), MAX_BATCH_EVENTS
        if not isinstance(calls, list | UnreadList):
            raise Invalid([Fault("batch", "wrong_type", "Must be a list of calls.")])
        if len(calls) > limit:
            message = f"A batch may have at most {limit:,} calls."
            raise Invalid([Fault("batch", "too_many", message)])
        defaults = {"sentAt": raw["sentAt"]} if "sentAt" in raw else {}
        return SentCalls(sender, post.path, user_agent, calls, defaults, {})

    def _refusals(self, sent: SentCalls, rejected: Mapping[int, ItemResult]) -> list[Refusal]:
        """Build quarantine entries for the rejected calls in a body."""
        refusals = list[Refusal]()
        for number, (index, result) in enumerate(rejected.items()):
            try:
                call = sent.read(index)
            except Invalid:  # the call is too large
                call = None
            entry = self._entry(sent.sender, sent.path, result.faults)._replace(
                content=content_of(call), sender=replay_sender(call, sent.sender, sent.user_agent)
            )
            refusals.append(Refusal(entry, is_event(call), is_stored=number < MAX_PER_BODY))
        return refusals

    def _entry(self, sender: Sender, path: str, faults: tuple[Fault, ...]) -> QuarantineEntry:
        """Build a quarantine entry without content, for a call or a whole body."""
        return QuarantineEntry(
            workspace_id=sender.website.workspace_id,
            website_id=sender.website.id,
            at_ms=self._clock(),
            origin=path,
            code=Invalid.code,
            faults=faults,
            is_public=not sender.is_trusted,
        )


def _read_calls(sent: SentCalls, context: CallContext) -> ReadCalls:
    valid, rejected = dict[int, NewEvent | Claim](), dict[int, ItemResult]()
    for index in range(len(sent.unread)):
        try:
            if (item := read_call(sent.read(index), context)) is not None:
                valid[index] = item
        except Invalid as error:
            rejected[index] = ItemResult(None, error.faults, error.more_faults)
    return ReadCalls(valid, within_body_limit(rejected))


def _warnings(sender: Sender, outcome: Outcome) -> tuple[Notice, ...]:
    """Return the warnings about a stored call.

    Senders with a public key get no warnings, because these could reveal data about other visitors.
    """
    if sender.is_trusted and isinstance(outcome, Receipt):
        return outcome.warnings
    if sender.is_trusted and isinstance(outcome, Resolution):
        return outcome.notices
    return ()
