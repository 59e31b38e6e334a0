"""Runs JMAP clients by other authors, and the tests of JMAP, against a private service."""

import argparse
import contextlib
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import requests

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = pathlib.Path(os.environ.get("JMAP_TOOLS", ""))
PASSWORD = "Correct-Horse-7"
DOMAIN = "latchmail.test"
LIMITS = ("jmap", "events", "sign_in", "registration", "app_passwords", "tokens", "unproven")
SCOPES = ["mail:read", "mail:send", "mail:write", "aliases:read"]


@contextlib.contextmanager
def service(program, modules, folder):
    """Starts `latchmail dev` with a new state folder and a free port, and installs the module."""
    state = folder / "state"
    with open(folder / "service.log", "w") as log:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LATCHMAIL_")}
        environment |= {f"LATCHMAIL_LIMITS__{limit.upper()}": "10000000" for limit in LIMITS}
        environment |= {"LATCHMAIL_STATE": str(state), "LATCHMAIL_LISTEN": "127.0.0.1:0"}
        arguments = [program, "dev", "--modules", modules]
        process = subprocess.Popen(arguments, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            while not (state / "run.json").exists():
                if process.poll() is not None:
                    sys.exit("jmap-clients: the service did not start:\n" + (folder / "service.log").read_text())
                time.sleep(0.1)
            base = json.loads((state / "run.json").read_text())["baseUrl"]
            component = pathlib.Path(modules) / "latchmail_jmap.wasm"
            command = [program, "module", "install", "--yes", component]
            command += ["--config", state / "latchmail.toml"]
            subprocess.run(command, check=True, env=environment, stdout=log, stderr=log)
            yield base
        finally:
            process.terminate()
            process.wait(timeout=60)


class Account:
    """An account with an API token and an app password."""

    def __init__(self, base, name):
        body = {
            "local_part": name, "domain": DOMAIN, "password": PASSWORD,
            "first_name": name, "last_name": "Jmap", "dob": "1990-12-10",
        }
        registered = self.post(base, "/api/v1/auth/register", body, None)
        self.address, access = registered["user"]["email"], registered["accessToken"]
        token = {"label": "a client", "scopes": SCOPES}
        self.token = self.post(base, "/api/v1/tokens", token, access)["token"]
        password = self.post(base, "/api/v1/app-passwords", {"label": "a client"}, access)
        self.password = password["password"]
        self.wait_for_index(base)

    def post(self, base, path, body, token):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        response = requests.post(base + path, json=body, headers=headers, timeout=30)
        response.raise_for_status()
        return response.json()

    def wait_for_index(self, base):
        """Waits until the search index of the new mailbox is complete."""
        headers = {"Authorization": f"Bearer {self.token}"}
        session = requests.get(f"{base}/jmap/session", headers=headers, timeout=30).json()
        account = session["primaryAccounts"]["urn:ietf:params:jmap:mail"]
        request = {
            "using": ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"],
            "methodCalls": [["Email/query", {"accountId": account}, "c"]],
        }
        for _ in range(300):
            answer = self.post(base, "/jmap/api", request, self.token)
            if answer["methodResponses"][0][0] != "error":
                return
            time.sleep(0.1)
        sys.exit("jmap-clients: the search index was not built")


def run_client(name, command, base, accounts):
    """Runs a client. Returns whether it succeeded."""
    environment = os.environ | {
        "JMAP_BASE": base,
        "JMAP_TOKEN": accounts[0].token,
        "JMAP_ADDRESS": accounts[0].address,
        "JMAP_TO": accounts[1].address,
    }
    status = subprocess.run(command, env=environment, timeout=300).returncode
    print(f"{name}: {'succeeded' if status == 0 else f'failed with status {status}'}")
    return status == 0


def exceptions():
    """Returns the patterns of tests that may fail, with their reasons."""
    lines = (HERE / "exceptions").read_text().splitlines()
    entries = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return {pattern: reason for pattern, reason in entries}


def run_suite(base, accounts, folder):
    """Runs the tests of JMAP. Returns whether all other tests than the exceptions passed."""
    primary, secondary = ({"username": one.address, "password": one.password} for one in accounts)
    config = {
        "sessionUrl": f"{base}/.well-known/jmap",
        "users": {"primary": primary, "secondary": secondary},
        "authMethod": "basic",
        "timeout": 30000,
        "verbose": False,
    }
    (folder / "config.json").write_text(json.dumps(config))
    report = folder / "report.json"
    command = ["node", TOOLS / "suite/dist/cli.js", "-c", folder / "config.json", "-f", "-o", report]
    with open(folder / "suite.log", "w") as log:
        status = subprocess.run(command, stdout=log, stderr=log, timeout=1800).returncode
    if not report.exists():
        print((folder / "suite.log").read_text())
        print(f"jmap-test-suite: no report, status {status}")
        return False
    results = json.loads(report.read_text())["results"]
    known, unused, failures = exceptions(), set(exceptions()), []
    for result in results:
        matching = [pattern for pattern in known if fnmatch.fnmatch(result["testId"], pattern)]
        if result["status"] == "fail":
            unused -= set(matching)
            if not matching:
                failures.append(f"{result['testId']}: {result.get('error', '')}")
    passed = sum(result["status"] == "pass" for result in results)
    skipped = sum(result["status"] == "skip" for result in results)
    print(f"jmap-test-suite: {passed} of {len(results)} passed, {skipped} skipped")
    for failure in failures:
        print(f"  failed: {failure}")
    for pattern in sorted(unused):
        print(f"  the exception {pattern} is not needed")
    return not failures


def main():
    parser = argparse.ArgumentParser(prog="./just jmap-clients", description=__doc__)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--modules", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", action="append", choices=("jmapc", "jam", "suite"), help="run only this program; can be repeated")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs and the report")
    options = parser.parse_args()
    wanted = options.only or ("jmapc", "jam", "suite")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lmjmap-"))
    folder.chmod(0o711)
    succeeded = []
    try:
        with service(options.program, options.modules, folder) as base:
            if "jmapc" in wanted:
                accounts = [Account(base, "ada-jmapc"), Account(base, "bo-jmapc")]
                command = [sys.executable, HERE / "jmapc_client.py"]
                succeeded.append(run_client("jmapc", command, base, accounts))
            if "jam" in wanted:
                accounts = [Account(base, "ada-jam"), Account(base, "bo-jam")]
                # The script finds the client in the folder of the tools.
                script = TOOLS / "jam.mjs"
                shutil.copy(HERE / "jam.mjs", script)
                succeeded.append(run_client("jmap-jam", ["node", script], base, accounts))
            if "suite" in wanted:
                accounts = [Account(base, "ada-suite"), Account(base, "bo-suite")]
                succeeded.append(run_suite(base, accounts, folder))
    finally:
        if options.keep:
            print(f"The logs are in {folder}.")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if all(succeeded) else 1)


if __name__ == "__main__":
    main()
