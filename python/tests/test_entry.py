"""tools/libtorch --entry: the line of ci/matrix.toml for a release that it lacks, by its wheel and the index."""
import http.server
import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
FILES = {  # Their days, as PyPI has them.
    "torch-2.16.0-cp311-cp311-manylinux_2_28_x86_64.whl": "2026-12-02T14:34:21.802258Z",
    "torch-2.16.1-cp311-cp311-manylinux_2_28_x86_64.whl": "2027-01-13T23:59:21.802258Z",
    "torch-2.16.1-cp315-cp315-manylinux_2_28_x86_64.whl": "2027-01-14T00:01:40.541337Z",
    "torch-2.16.1-cp316-cp316t-manylinux_2_28_x86_64.whl": "2027-01-14T00:01:41.540537Z",
    "torch-2.16.1-cp316-cp316-win_amd64.whl": "2027-01-14T00:01:42.540537Z",
}


@pytest.fixture()
def index():
    """The address of an index with these files, and what it answers, which a test may replace."""
    answer = {"text": json.dumps({"files": [{"filename": name, "upload-time": day} for name, day in FILES.items()]})}

    class Index(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/simple/torch/" else 404)
            self.end_headers()
            self.wfile.write(answer["text"].encode())

        def log_message(self, *words):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield "http://127.0.0.1:{}/simple".format(server.server_port), answer
    server.shutdown()
    server.server_close()


def site_of(folder, version="2.16.1", header="#error C++20 or later compatible compiler is required to use PyTorch."):
    about = folder / "torch/version.py"
    all_of_torch = folder / "torch/include/torch/csrc/api/include/torch/all.h"
    all_of_torch.parent.mkdir(parents=True)
    all_of_torch.write_text(header + "\n")
    about.write_text("__version__ = '{}+cu132'\ndebug = False\ncuda: Optional[str] = '13.2'\ngit_version = '{}'\n"
                     "hip: Optional[str] = None\n".format(version, "0123456789abcdef" * 2))
    return folder


def entry(site, index):
    done = subprocess.run([str(TREE / "tools/libtorch"), str(site), "--entry"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, PIP_INDEX_URL=index, no_proxy="127.0.0.1"))
    return done.returncode, (done.stdout + done.stderr).decode()


def test_the_line_has_all_that_the_head_of_the_matrix_names(tmp_path, index):
    assert entry(site_of(tmp_path), index[0]) == (0, '  { version = "2.16.1", std = 20, cuda = 13, python = "3.15", '
                                                     'date = 2027-01-13, began = 2026-12-02, git = "0123456789ab" },\n')


def test_the_first_release_of_a_line_began_with_itself(tmp_path, index):
    code, said = entry(site_of(tmp_path, "2.16.0"), index[0])
    assert (code, "began" in said, "date = 2026-12-02, git" in said) == (0, False, True), said


@pytest.mark.parametrize("version, header, answer, words", [
    ("2.17.0", "#error C++20 or later", None, "there is no wheel of 2.17.0 on the index"),
    ("2.16.1", "#pragma once", None, "there is no C++ standard in "),
    ("2.16.1", "#error C++20 or later", "<html>", "does not say when the files of torch were uploaded: "),
    ("2.16.1", "#error C++20 or later", '{"files": [{"filename": "torch-2.16.1.tar.gz"}]}', "does not say when"),
])
def test_what_is_missing_is_one_line(tmp_path, index, version, header, answer, words):
    index[1]["text"] = answer or index[1]["text"]
    code, said = entry(site_of(tmp_path, version, header), index[0])
    assert (code, words in said, said.count("\n")) == (7, True, 1), said
