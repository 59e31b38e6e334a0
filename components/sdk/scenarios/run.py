"""Runs the scenarios with the fake host of a Python project.

Run this in the folder of the project, which `latchmail module new` created, with the project's
Python. A scenario is skipped if the fake host does not have a function that the scenario calls.
"""

import dataclasses
import enum
import importlib
import json
import re
import sys
import typing
from pathlib import Path

sys.path.insert(0, ".")

# This generates the bindings, which the other imports need.
import tests  # noqa: E402, F401, I001

from componentize_py_types import Err  # noqa: E402
from tests.fake import FakeHost  # noqa: E402

FOLDER = Path(__file__).resolve().parent
CONTRACT = Path("wit/deps/latchmail-host")


def snake(name):
    return name.replace("-", "_")


def parameters(call):
    """Returns the parameters of a function: pairs of a name and a type."""
    file, name = call.split(".")
    wit = (CONTRACT / f"{file}.wit").read_text()
    found = re.search(rf"^    %?{name}: func\((.*?)\)( ->|;)", wit, re.MULTILINE)
    return re.findall(r"%?([a-z-]+): ([^,]+)", found[1])


def argument(call, value, kind):
    """Converts an argument to the form that a function in Python takes."""
    if value is None:
        return None
    if "list<u8>" in kind:
        return value.encode()
    if isinstance(value, dict):
        module = importlib.import_module(f"wit_world.imports.{snake(call.split('.')[0])}")
        return record(module, kind, value)
    return value


def record(module, kind, value):
    """Converts a record. A list that is missing is empty. An object in a record is a case of a variant."""
    created = getattr(module, kind.title().replace("-", ""))
    fields = {field.name: field.type for field in dataclasses.fields(created)}
    values = {snake(name): one for name, one in value.items()}
    for name, one in values.items():
        if isinstance(one, dict):
            [(case, inner)] = one.items()
            # The type of a variant is the union of its cases.
            suffix = f"_{case.title().replace('-', '')}"
            cases = [type_ for type_ in typing.get_args(fields[name]) if type_.__name__.endswith(suffix)]
            values[name] = cases[0](inner)
    return created(**{name: [] for name in fields if name not in values}, **values)


def to_json(value):
    """Converts a result to JSON in the names of the contract."""
    if isinstance(value, enum.Enum):
        return value.name.lower().replace("_", "-")
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [to_json(one) for one in value]
    if dataclasses.is_dataclass(value):
        members = {
            field.name.rstrip("_").replace("_", "-"): to_json(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
        # A case of a variant has the name of its type in front.
        if "_" in type(value).__name__:
            case = re.sub("(?<!^)(?=[A-Z])", "-", type(value).__name__.split("_")[1]).lower()
            return {case: members["value"]} if members else case
        return members
    return value


class Values:
    """The values of the placeholders in a scenario."""

    def __init__(self, accounts):
        self._values = {"n": "1", "domain": "example.test", "password": "Correct-Horse-7"}
        self._values |= {name: f"{name}@example.test" for name in accounts}

    def fill(self, value):
        if isinstance(value, str):
            whole = re.fullmatch(r"\{([a-z-]+)\}", value)
            if whole and whole[1] in self._values:
                return self._values[whole[1]]
            return re.sub(r"\{([a-z-]+)\}", lambda found: str(self._values.get(found[1], found[0])), value)
        if isinstance(value, list):
            return [self.fill(one) for one in value]
        if isinstance(value, dict):
            if "repeat" in value:
                return value["repeat"] * value["times"]
            return {name: self.fill(one) for name, one in value.items()}
        return value

    def matches(self, expected, actual):
        """Returns whether a result is as expected, and sets the values of new placeholders."""
        if isinstance(expected, str):
            whole = re.fullmatch(r"\{([a-z-]+)\}", expected)
            if whole and whole[1] not in self._values:
                self._values[whole[1]] = actual
                return True
            # The name of a case also stands for a case with a value.
            return self.fill(expected) == actual or (isinstance(actual, dict) and list(actual) == [expected])
        if isinstance(expected, list):
            pairs = isinstance(actual, list) and len(actual) == len(expected) and zip(expected, actual)
            return pairs is not False and all(self.matches(one, other) for one, other in pairs)
        if isinstance(expected, dict):
            return isinstance(actual, dict) and all(
                self.matches(one, actual.get(name)) for name, one in expected.items()
            )
        return expected == actual


def sign_in(host, caller, first):
    name = caller if isinstance(caller, str) else (caller or {}).get("account", first)
    host.sign_in(f"{name}@example.test")
    if caller == "anonymous":
        host.sign_out()
    elif isinstance(caller, dict) and "scopes" in caller:
        host.use_token(caller["scopes"])


def run(scenario):
    """Runs a scenario and returns the first difference.

    Does not run it if the fake host lacks functions, and returns the list of these functions.
    """
    host = FakeHost()
    accounts = scenario.get("accounts", ["ada"])
    values = Values(accounts)
    steps = scenario["steps"]

    def implementation(call):
        file, name = map(snake, call.split("."))
        return getattr(getattr(host, file, None), name, None)

    def deliver(message):
        sign_in(host, accounts[0], accounts[0])
        host.deliver(message["from"], **{"to": [], **{k: v for k, v in message.items() if k != "from"}})

    messages = scenario.get("messages", [])
    stored = messages + [step["deliver"] for step in steps if "deliver" in step]
    called = [step["call"] for step in steps if "call" in step]
    missing = [call for call in called if implementation(call) is None]
    # The fake host has only an inbox.
    missing += [f"the folder {message['folder']}" for message in stored if "folder" in message]
    if missing:
        return missing
    for message in messages:
        deliver(message)
    for index, step in enumerate(steps):
        if "deliver" in step:
            deliver(step["deliver"])
        if "call" not in step:
            continue
        call = step["call"]
        sign_in(host, step.get("as", scenario.get("as")), accounts[0])
        given = values.fill(step.get("with", {}))
        taken = [argument(call, given.get(name), kind) for name, kind in parameters(call)]
        try:
            actual = {"returns": to_json(implementation(call)(*taken))}
        except Err as error:
            actual = {"fails": to_json(error.value)}
        expected = {name: step[name] for name in ("returns", "fails") if name in step}
        if not values.matches(expected, actual):
            return f"step {index}, {call}: expected {expected}, got {actual}"
    return None


def main():
    passed, skipped, missing, failed = 0, 0, set(), False
    for file in sorted(FOLDER.glob("*.json")):
        for scenario in json.loads(file.read_text()):
            name = f"{file.name}: {scenario['name']}"
            difference = run(scenario)
            if difference is None:
                passed += 1
            elif isinstance(difference, list):
                skipped += 1
                missing.update(difference)
            else:
                failed = True
                print(f"{name}, {difference}", file=sys.stderr)
    print(f"{passed} scenarios passed. {skipped} were skipped, because the fake host has no:")
    print(", ".join(sorted(missing)))
    sys.exit(failed)


main()
