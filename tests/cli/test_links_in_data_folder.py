"""A link in place of the socket is replaced, and what it leads to stays as it was."""

import stat
from pathlib import Path

import pytest

from penstock.backup.fence import SOCKET
from tests.serving import Served


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts a service twice")
def test_a_link_in_place_of_the_socket_is_not_followed(tmp_path: Path) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    with Served(data):
        pass
    outside.write_text("of another program")
    outside.chmod(0o644)
    (data / SOCKET).unlink(missing_ok=True)
    (data / SOCKET).symlink_to(outside)
    with Served(data) as served:
        assert served.client.get("/health/ready").status_code == 200
        assert stat.S_ISSOCK((data / SOCKET).lstat().st_mode)
    assert outside.read_text() == "of another program"
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644
