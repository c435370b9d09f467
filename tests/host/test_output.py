"""Where commands write: only regular files and new names, complete or not at all."""

import os
import stat

import pytest

from host.commands import generate, simulate
from host.errors import UserError
from host.files.output import Output, check_folder, check_output, write_files

from .command_line import assert_one_line, without_progress


def write(path, text):
    with Output(path) as output:
        output.partial.write_text(text)
        output.commit()


def test_a_file_appears_when_complete_and_replaces_an_earlier_one(tmp_path):
    path = tmp_path / "a"
    write(path, "first")
    with Output(path) as output:
        output.partial.write_text("second")
        assert path.read_text() == "first"
        output.commit()
    assert path.read_text() == "second"
    assert os.listdir(tmp_path) == ["a"]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "a"
    write(path, "first")
    with pytest.raises(RuntimeError), Output(path) as output:
        output.partial.write_text("half")
        raise RuntimeError
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["a"]


def test_files_of_a_folder_are_written_as_they_are_given(tmp_path):
    folder = tmp_path / "new" / "folder"
    write_files(folder, {"text": "ä\nb\n", "bytes": b"\xff\r\n"})
    assert (folder / "text").read_bytes() == "ä\nb\n".encode()
    assert (folder / "bytes").read_bytes() == b"\xff\r\n"
    assert sorted(os.listdir(folder)) == ["bytes", "text"]


@pytest.mark.parametrize("there", [True, False])
def test_through_a_symbolic_link_its_target_is_written(tmp_path, there):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    if there:
        target.write_text("before")
    link.symlink_to(target)
    write(link, "after")
    assert link.is_symlink() and target.read_text() == "after"
    assert sorted(os.listdir(tmp_path / "folder")) == ["target"]


def test_a_pipe_is_never_replaced_even_one_that_appears_meanwhile(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(UserError, match=r"pipe: is no regular file \(expected a file name\)"):
        Output(path)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(UserError, match="link: is no regular file"):
        check_output(tmp_path / "link")
    late = tmp_path / "late"
    with Output(late) as output:
        output.partial.write_text("x")
        os.mkfifo(late)
        with pytest.raises(UserError, match="late: is no regular file"):
            output.commit()
    for name in ("pipe", "late"):
        assert stat.S_ISFIFO(os.stat(tmp_path / name).st_mode)
    assert sorted(os.listdir(tmp_path)) == ["late", "link", "pipe"]


def test_names_that_cannot_be_written_are_told_beforehand(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, reason in (
        ("", "is a folder"),
        ("gone/a", "cannot be written: its folder does not exist"),
        ("file/a", "cannot be written: Not a directory"),
        ("loop", "cannot be written: Too many levels"),
    ):
        with pytest.raises(UserError, match=reason):
            check_output(tmp_path / name)


def test_a_folder_to_write_to_may_be_missing_but_nothing_else(tmp_path):
    names = ("a", "b")
    check_folder(tmp_path, names)
    check_folder(tmp_path / "new" / "deep", names)
    (tmp_path / "b").mkdir()
    with pytest.raises(UserError, match="b: is a folder"):
        check_folder(tmp_path, names)
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "deep"):
        with pytest.raises(UserError, match=r"file: is a file \(expected a folder\)"):
            check_folder(folder, names)


@pytest.mark.parametrize("command", ["pack", "simulate", "generate"])
def test_no_command_replaces_a_pipe(run, files, monkeypatch, command):
    def late(*arguments, **options):
        raise AssertionError("the output is not checked beforehand")

    monkeypatch.setattr(simulate, "SimDevice", late)
    monkeypatch.setattr(generate, "generated_files", late)
    pipe = files / "registers.h"
    os.mkfifo(pipe)
    arguments = {
        "pack": (files / "matrix.npz", "-o", pipe),
        "simulate": (files / "head.safetensors", "--hidden", files / "states.npz", "-o", pipe),
        "generate": ("-o", files),
    }
    before = sorted(os.listdir(files))
    code, out, err = run(command, *arguments[command])
    assert (code, out) == (1, "")
    assert_one_line(without_progress(err), f"{pipe}: is no regular file")
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert sorted(os.listdir(files)) == before


def test_generate_into_a_file_is_told_before_anything_is_generated(run, tmp_path, monkeypatch):
    monkeypatch.setattr(generate, "generated_files", None)
    (tmp_path / "file").write_text("")
    code, _, err = run("generate", "-o", tmp_path / "file")
    assert code == 1
    assert_one_line(err, f"{tmp_path / 'file'}: is a file (expected a folder)")
