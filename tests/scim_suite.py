"""Runs the compliance suite scim2-tester against the URL and the token in the arguments, and prints
each check that found an error. The exit status is 1 if there is one."""

import sys

from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server

base_url, token = sys.argv[1:]
headers = {"Authorization": f"Bearer {token}"}
with Client(base_url=base_url, headers=headers, timeout=60) as client:
    results = check_server(SyncSCIMClient(client))

errors = [one for one in results if one.status not in (Status.SUCCESS, Status.SKIPPED)]
for one in errors:
    print(f"{one.status.name} {one.title}: {one.reason}\n{one.data}", file=sys.stderr)
skipped = [one.title for one in results if one.status == Status.SKIPPED]
print(f"{len(results)} checks, {len(errors)} errors, skipped: {skipped}")
sys.exit(bool(errors) or len(results) < 30)
