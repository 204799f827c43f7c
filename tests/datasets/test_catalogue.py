"""Every entry says what it is, where it comes from and what its label 1 means."""

from __future__ import annotations

from counterplay.datasets import catalogue


def test_catalogue_is_complete() -> None:
    for name, entry in catalogue.CATALOGUE.items():
        assert name == entry.name
        assert entry.title.endswith(".")
        assert entry.source
        assert entry.licence
        if len(entry.target_names) == 2:
            assert entry.label_1, f"{name} does not say what label 1 means"
        for remote in entry.remotes:
            checked = remote.sha256 or all(member.sha256 for member in remote.extract)
            assert checked, f"{name}: a download without any checksum"
            for digest in (remote.sha256, *(member.sha256 for member in remote.extract)):
                assert digest is None or (len(digest) == 64 and int(digest, 16) >= 0)
