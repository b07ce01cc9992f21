"""HTTP routes that serve association files to phones and check them for app owners."""

from functools import partial

from litestar import Response

from penstock.accounts.model import Caller
from penstock.http.answers import answer
from penstock.http.handlers import route
from penstock.links.association.schema import AndroidFile, AppleFile, AppLinksCheck
from penstock.links.association.service import ANDROID_FILE, APPLE_FILE, AssociationService

# A short time lets operators test changes. Apple and Google cache the files for hours or days
# anyway.
_CACHED = {"Cache-Control": "public, max-age=300"}

_file_route = partial(route, "GET", open_to_all=True, tag="managed links")


@_file_route(APPLE_FILE, "Apple's association file", answers=AppleFile)
async def read_apple_file(associations: AssociationService) -> Response[bytes]:
    """Lists the installation's iOS apps that have an `iosBundleId` and an `iosTeamId`. They open
    `/l/*`.
    """
    return answer(await associations.apple_file(), headers=_CACHED)


@_file_route(ANDROID_FILE, "Google's association file", answers=AndroidFile)
async def read_android_file(associations: AssociationService) -> Response[bytes]:
    """Lists the installation's Android apps that have an `androidPackage` and
    `androidSha256Fingerprints`.

    They open `/l/*`.
    """
    return answer(await associations.android_file(), headers=_CACHED)


@route(
    "GET",
    "/api/settings/websites/{website_id:str}/app-links/check",
    "Check the association files for an app",
    tag="managed links",
)
def check_app_links(
    caller: Caller, associations: AssociationService, website_id: str
) -> AppLinksCheck:
    """Returns the app's entries in the files, missing settings, and problems with the public URL.

    The check makes no requests: it only examines the text of the public URL.
    """
    return associations.check(caller.workspace_id, website_id)


ROUTES = (read_apple_file, read_android_file, check_app_links)
