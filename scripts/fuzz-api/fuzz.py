"""Starts a private service and runs Schemathesis against it, once with each kind of credential.

The exit status is 0 if all findings are listed in exceptions.toml. All files are in a temporary folder, which is removed at the end unless --keep is given.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

import credentials

HERE = pathlib.Path(__file__).resolve().parent
LIMITS = (
    "mail search aliases profile tokens app_passwords sign_in sign_in_address unproven registration password_change domains_read domains_write mcp teams webhooks "
    "modules public readiness session oauth admin"
).split()


@contextlib.contextmanager
def nameserver():
    """Starts a DNS server on loopback that responds to every query with NXDOMAIN. Otherwise lookups would use the network or time out."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                query, client = server.recvfrom(4096)
            except OSError:
                return
            end = query.find(b"\0", 12) + 5
            server.sendto(query[:2] + b"\x81\x83\0\1\0\0\0\0\0\0" + query[12:end], client)

    threading.Thread(target=serve, daemon=True).start()
    yield "%s:%d" % server.getsockname()
    server.close()


@contextlib.contextmanager
def service(program, modules, folder):
    """Starts `latchmail dev` with a new state folder, free ports and raised rate limits."""
    state = folder / "state"
    with nameserver() as dns, open(folder / "service.log", "w") as log:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LATCHMAIL_")}
        environment |= {f"LATCHMAIL_LIMITS__{limit.upper()}": "10000000" for limit in LIMITS}
        environment |= {"LATCHMAIL_STATE": str(state), "LATCHMAIL_LISTEN": "127.0.0.1:0", "LATCHMAIL_DNS__SERVER": dns}
        arguments = [program, "dev", "--modules", modules]
        process = subprocess.Popen(arguments, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            while not (state / "run.json").exists():
                if process.poll() is not None:
                    sys.exit("fuzz-api: the service did not start:\n" + (folder / "service.log").read_text())
                time.sleep(0.1)
            yield json.loads((state / "run.json").read_text()), state / "latchmail.toml"
        finally:
            process.terminate()
            process.wait(timeout=60)


def run(kind, base, folder, options):
    """Runs Schemathesis with one kind of credential. Returns the exit status, the number of cases by phase and status class, and the used exceptions."""
    config = folder / f"{kind.name}.toml"
    config.write_text(credentials.config(kind, HERE / "hooks.py"))
    record = folder / f"{kind.name}.jsonl"
    environment = os.environ | {
        "FUZZ_RECORD": str(record),
        "FUZZ_EXCEPTIONS": str(HERE / "exceptions.toml"),
        "FUZZ_CREDENTIAL": kind.to_json(),
        "PYTHONPATH": str(HERE),
        "SCHEMATHESIS_HOOKS": "hooks",
    }
    arguments = [pathlib.Path(sys.executable).with_name("schemathesis"), "--config-file", config, "run", f"{base}/api/openapi.json"]
    arguments += ["--checks", "all", "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", str(options.examples)]
    arguments += ["--no-color", "--output-sanitize", "false", "--continue-on-failure", "--generation-database", "none", "--suppress-health-check", "all"]
    # A stream of events does not end. A request for changes can wait for 60 seconds.
    arguments += ["--exclude-operation-id", "streamEvents", "--warnings", "off", "--request-timeout", "75", *kind.arguments]
    if options.seed is not None:
        arguments += ["--seed", str(options.seed)]
    with open(folder / f"{kind.name}.txt", "w") as report:
        status = subprocess.run(arguments, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=report, stderr=report).returncode
    cases, used_exceptions = collections.Counter(), collections.Counter()
    for line in record.read_text().splitlines():
        entry = json.loads(line)
        if "exception" in entry:
            used_exceptions[entry["exception"]] += 1
        else:
            cases[entry["phase"], entry["status"] // 100] += 1
    return status, cases, used_exceptions


def main():
    parser = argparse.ArgumentParser(prog="./just fuzz-api", description=__doc__)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--modules", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--examples", type=int, default=20, help="examples of each operation and kind of credential in the fuzzing phase (default: %(default)s)")
    parser.add_argument("--only", action="append", metavar="KIND", help="a kind of credential; can be repeated (default: every kind)")
    parser.add_argument("--seed", type=int, help="seed of the generator")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the reports and the logs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="latchmail-fuzz-"))
    folder.chmod(0o711)
    began = time.monotonic()
    failed, total, used_exceptions = False, 0, collections.Counter()
    try:
        with service(options.program, options.modules, folder) as (running, settings):
            kinds = credentials.kinds(running, options.program, settings)
            for kind in kinds:
                if options.only and kind.name not in options.only:
                    continue
                started = time.monotonic()
                status, cases, used = run(kind, running["baseUrl"], folder, options)
                used_exceptions += used
                count = sum(cases.values())
                total += count
                phases = collections.Counter()
                for (phase, _), number in cases.items():
                    phases[phase] += number
                succeeded = sum(number for (_, status), number in cases.items() if status == 2)
                summary = ", ".join(f"{phase} {number}" for phase, number in phases.most_common())
                print(f"{kind.name}: {count} cases ({summary}), {succeeded} with a 2xx status, {time.monotonic() - started:.0f} s, exit status {status}", flush=True)
                if status != 0:
                    failed = True
                    print((folder / f"{kind.name}.txt").read_text(), flush=True)
        exceptions = tomllib.loads((HERE / "exceptions.toml").read_text())["exception"]
        for index, exception in enumerate(exceptions):
            operations = ", ".join(exception["operations"])
            print(f"exception {operations} {exception['check']}: {used_exceptions[index] or 'not needed'}")
        print(f"{total} cases in {time.monotonic() - began:.0f} s: {'FAILED' if failed else 'no findings'}", flush=True)
    finally:
        if options.keep:
            print(f"the reports and logs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


main()
