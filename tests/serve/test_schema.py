"""The API keeps to its description, whatever is sent: schemathesis makes requests up."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Client


def test_the_description_names_every_endpoint(client: Client):
    described = client.get("/v1/openapi.json").json
    expected = {"/v1/predict", "/v1/explain", "/v1/models", "/healthz", "/readyz", "/metrics", "/predict", "/setup"}
    assert expected | {"/health", "/v2", "/v2/models/{name}/infer"} <= set(described["paths"])


@pytest.mark.slow
def test_no_request_that_schemathesis_makes_up_breaks_the_server(client: Client, tmp_path):
    command = Path(sys.executable).with_name("schemathesis")
    if not command.is_file() and shutil.which("schemathesis") is None:
        pytest.skip("pip install schemathesis")
    options = ["--checks", "not_a_server_error,response_schema_conformance,content_type_conformance"]
    options += ["--max-examples", "15", "--max-time", "12", "--phases", "examples,coverage,fuzzing", "--seed", "1"]
    done = subprocess.run(
        [str(command), "run", f"{client.url}/v1/openapi.json", *options, "--warnings", "off", "--no-color"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
