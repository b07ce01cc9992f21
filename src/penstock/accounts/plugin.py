"""Wiring of users, sessions, workspaces, API keys and websites."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.accounts import callers
from penstock.accounts import routes as account_routes
from penstock.accounts.audit import routes as audit_routes
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.confirmations import routes as confirmation_routes
from penstock.accounts.confirmations.service import ConfirmationService
from penstock.accounts.identity_secrets import routes as identity_secret_routes
from penstock.accounts.identity_secrets.service import IdentitySecretService
from penstock.accounts.invitations import routes as invitation_routes
from penstock.accounts.invitations.service import InvitationService
from penstock.accounts.keys import routes as key_routes
from penstock.accounts.keys.service import KeyService
from penstock.accounts.known_networks.service import KnownNetworks
from penstock.accounts.mail.service import Mailer
from penstock.accounts.members import routes as member_routes
from penstock.accounts.members.service import MemberService
from penstock.accounts.own_account import routes as own_account_routes
from penstock.accounts.own_account.service import OwnAccountService
from penstock.accounts.password_resets import routes as password_reset_routes
from penstock.accounts.password_resets.service import PasswordResetService
from penstock.accounts.password_work import password_queue, provide_run_password_work
from penstock.accounts.second_factor import routes as second_factor_routes
from penstock.accounts.second_factor.service import SecondFactorService
from penstock.accounts.service import AccountService
from penstock.accounts.single_sign_on.service import SingleSignOnService
from penstock.accounts.websites import routes as website_routes
from penstock.accounts.websites.service import WebsiteService
from penstock.accounts.workspace import routes as workspace_routes
from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.fair_queue import FairQueue
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.metadb.secret_box import SecretBox


@dataclass(frozen=True)
class AccountsRoom(Room):
    accounts: AccountService
    password_work: FairQueue
    key_service: KeyService
    website_service: WebsiteService
    identity_secrets: IdentitySecretService
    members: MemberService
    invitations: InvitationService
    confirmations: ConfirmationService
    networks: KnownNetworks
    own_account: OwnAccountService
    second_factors: SecondFactorService
    password_resets: PasswordResetService
    mailer: Mailer
    single_sign_on: SingleSignOnService
    limits: WorkspaceService
    audit_log: AuditLog

    routes = (
        *account_routes.ROUTES,
        *key_routes.ROUTES,
        *website_routes.ROUTES,
        *identity_secret_routes.ROUTES,
        *member_routes.ROUTES,
        *invitation_routes.ROUTES,
        *confirmation_routes.ROUTES,
        *own_account_routes.ROUTES,
        *second_factor_routes.ROUTES,
        *password_reset_routes.ROUTES,
        *workspace_routes.ROUTES,
        *audit_routes.ROUTES,
    )
    request_objects = {  # noqa: RUF012 - a class variable of the base
        "caller": callers.provide_caller,
        "current_user": callers.provide_current_user,
        "run_password_work": provide_run_password_work,
    }

    def workers(self) -> Sequence[Worker]:
        mail = [self.mailer.worker] if self.mailer.is_set_up else []
        return [self.key_service.worker, *self.audit_log.workers, *mail]


def build(core: Core, box: SecretBox) -> AccountsRoom:
    settings, clock, database, *_ = core
    audit_log = AuditLog(database, clock)
    websites = WebsiteService(database, clock)
    keys = KeyService(database, websites, clock)
    own_account = OwnAccountService(database, clock)
    mailer = Mailer(settings, clock)
    second_factors = SecondFactorService(database, own_account, box, clock)
    confirmations = ConfirmationService(database, keys, mailer, settings, clock)
    networks = KnownNetworks(database, box)
    password_work = password_queue()
    accounts = AccountService(
        database, audit_log, second_factors, confirmations, networks, password_work, settings, clock
    )
    return AccountsRoom(
        accounts=accounts,
        password_work=password_work,
        key_service=keys,
        website_service=websites,
        identity_secrets=IdentitySecretService(database, websites, box, clock),
        members=MemberService(database, keys, clock),
        invitations=InvitationService(database, confirmations, mailer, settings, clock),
        confirmations=confirmations,
        networks=networks,
        own_account=own_account,
        second_factors=second_factors,
        password_resets=PasswordResetService(
            database, confirmations, networks, mailer, settings, clock
        ),
        mailer=mailer,
        single_sign_on=SingleSignOnService(accounts, box, settings, clock),
        limits=WorkspaceService(database, settings, clock),
        audit_log=audit_log,
    )
