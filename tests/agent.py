"""The client of the protocol's own authors in Python. Its argument is the endpoint's URL.

It writes its results line by line in JSON, and reads commands in the same way, like `agent.mjs`. It can open URLs: it reports the URL that it
is asked to show to the user, and answers that the user agreed.
"""

import asyncio
import json
import sys

from mcp import Client
from mcp_types import ElicitResult


def say(what):
    print(json.dumps(what), flush=True)


def plain(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def opened(_context, params):
    say({"asked": plain(params)})
    return ElicitResult(action="accept")


async def main():
    async with Client(sys.argv[1], elicitation_callback=opened) as client:
        say({"connected": {"revision": client.protocol_version}})
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            try:
                if "call" in command:
                    answer = await client.call_tool(command["call"], command.get("arguments"))
                else:
                    answer = await client.list_tools()
                say({"answer": plain(answer)})
            except Exception as error:
                say({"failed": repr(error)})


asyncio.run(main())
