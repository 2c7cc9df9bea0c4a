from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from reliant.errors import StorageError
from reliant.store.atomic import make_folder, publishing, recover, remove_folder, write_bytes, write_json, writing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_written_file_holds_its_bytes_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_bytes(tmp_path / "file", b"old")
    write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


def test_json_ends_with_a_line_and_survives_names_that_are_no_text(tmp_path: Path) -> None:
    write_json(tmp_path / "file.json", {"id": "photo\udcff.png", "n": 1})
    text = (tmp_path / "file.json").read_text()
    assert text.endswith("}\n")
    assert json.loads(text) == {"id": "photo\udcff.png", "n": 1}


def test_others_may_read_what_a_library_wrote_for_its_owner_alone(tmp_path: Path) -> None:
    with writing(tmp_path / "file") as temporary:
        temporary.unlink()
        os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o600))
    (tmp_path / "plain").touch()
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_a_block_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_bytes(tmp_path / "file", b"old")

    def fail() -> None:
        with writing(tmp_path / "file") as temporary:
            temporary.write_bytes(b"ne")
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        fail()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (
            errno.ENOSPC,
            "No space left on device; what was saved before it is intact: free some space and run the same command again",
        ),
        (
            errno.EDQUOT,
            "Disk quota exceeded; what was saved before it is intact: free some space and run the same command again",
        ),
        (
            errno.EFBIG,
            "File too large; what was saved before it is intact: raise the limit on file sizes and run the same command again",
        ),
        (
            errno.EROFS,
            "Read-only file system; what was saved before it is intact: make it writable and run the same command again",
        ),
        (
            errno.EACCES,
            "Permission denied; what was saved before it is intact: make it writable and run the same command again",
        ),
        (errno.EIO, "Input/output error; what was saved before it is intact: check the disk"),
    ],
)
def test_what_the_disk_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str) -> None:
    write_bytes(tmp_path / "file", b"old")

    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError) as caught:
        write_bytes(tmp_path / "file", b"new")
    assert str(caught.value) == f"cannot write {tmp_path / 'file'}: {advice}"
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_an_error_of_the_system_that_no_disk_makes_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_bytes(tmp_path / "missing" / "file", b"")


def test_a_published_folder_replaces_the_whole_old_one(tmp_path: Path) -> None:
    for name in ("old", "new"):
        with publishing(tmp_path / "a" / "b") as temporary:
            write_bytes(temporary / name, b"")
    assert names(tmp_path / "a") == ["b"]
    assert names(tmp_path / "a" / "b") == ["new"]


def test_a_folder_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with publishing(tmp_path / "a") as temporary:
        write_bytes(temporary / "old", b"")

    def fail() -> None:
        with publishing(tmp_path / "a") as temporary:
            write_bytes(temporary / "new", b"")
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        fail()
    assert (names(tmp_path), names(tmp_path / "a")) == (["a"], ["old"])

    rename = os.rename

    def refuse_the_new(source: Path, target: Path) -> None:
        if ".tmp-" in str(source):
            raise OSError(errno.ENOSPC, "full")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse_the_new)
    with pytest.raises(StorageError), publishing(tmp_path / "a") as temporary:
        write_bytes(temporary / "new", b"")
    assert (names(tmp_path), names(tmp_path / "a")) == (["a"], ["old"])


def test_recovery_ends_what_a_kill_interrupted(tmp_path: Path) -> None:
    for name in (".tmp-7-x/inside", "deep/.tmp-7-y", ".old-moved/whole", ".old-replaced/old", "replaced/new", "kept/.tmp/file"):
        make_folder((tmp_path / name).parent)
        (tmp_path / name).touch()
    recover(tmp_path)
    assert names(tmp_path) == ["deep", "kept", "moved", "replaced"]
    assert names(tmp_path / "moved") == ["whole"]
    assert names(tmp_path / "replaced") == ["new"]
    assert names(tmp_path / "deep") == []
    assert (tmp_path / "kept" / ".tmp" / "file").exists()


def test_recovery_does_not_follow_links_out_of_the_folder(tmp_path: Path) -> None:
    make_folder(tmp_path / "outside")
    (tmp_path / "outside" / ".tmp-file").touch()
    make_folder(tmp_path / "run")
    (tmp_path / "run" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "run" / ".tmp-link").symlink_to(tmp_path / "outside")
    recover(tmp_path / "run")
    assert names(tmp_path / "run") == ["link"]
    assert names(tmp_path / "outside") == [".tmp-file"]


def test_removing_a_folder_that_is_not_there_does_nothing(tmp_path: Path) -> None:
    remove_folder(tmp_path / "none")
    make_folder(tmp_path / "some" / "more")
    remove_folder(tmp_path / "some")
    assert names(tmp_path) == []
