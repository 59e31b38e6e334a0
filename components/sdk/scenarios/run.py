"""Runs the scenarios with the fake host of a Python project.

Run this in the folder of the project, which `latchmail module new` created, with the project's
Python. The project's pyproject.toml must contain all interfaces of the fake host. A scenario is
skipped if the fake host does not have a function that the scenario calls. The last line of the
output has the names of these functions.
"""

import dataclasses
import enum
import importlib
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, ".")

# This generates the bindings, which the other imports need.
import tests  # noqa: E402, F401, I001

from componentize_py_types import Err  # noqa: E402
from tests.fake import Blob, FakeHost  # noqa: E402
from tests.fake.message import File  # noqa: E402

FOLDER = Path(__file__).resolve().parent
CONTRACT = Path("wit/deps/latchmail-host")

# The values of missing fields that must not be empty, by the names of their records.
DEFAULTS = {"search": {"syntax": "operators", "sort": "newest"}}


def snake(name):
    return name.replace("-", "_")


def contract():
    """Returns the texts of the contract by the names of its files, and its types by `file.name` and `name`."""
    interfaces, types = {}, {}
    for path in CONTRACT.glob("*.wit"):
        wit = interfaces[path.stem] = re.sub("//.*", "", path.read_text())
        for kind, name, body in re.findall(r"(record|variant|enum) ([a-z-]+) \{([^}]*)\}", wit):
            # A field of a record is `name: type`. A case of a variant or an enum is `name` or
            # `name(type)`.
            members = re.findall(r"^ *%?([a-z-]+)(?:: (.*)|\((.*)\))?,$", body, re.MULTILINE)
            members = {name: field or value for name, field, value in members}
            types[f"{path.stem}.{name}"] = types[name] = (kind, path.stem, name, members)
        for name, alias in re.findall("type ([a-z-]+) = (.*);", wit):
            types[f"{path.stem}.{name}"] = types[name] = alias
    return interfaces, types


INTERFACES, TYPES = contract()


def parameters(call):
    """Returns the parameters of a function: pairs of a name and a type."""
    file, name = call.split(".")
    found = re.search(rf"^    %?{name}: func\((.*?)\)( ->|;)", INTERFACES[file], re.MULTILINE)
    return re.findall(r"%?([a-z-]+): ([^,]+)", found[1])


def argument(value, kind, file):
    """Converts an argument to the form that a function in Python takes. A missing value is empty."""
    outer, _, inner = kind.removesuffix(">").partition("<")
    if outer == "option":
        return None if value is None else argument(value, inner, file)
    if kind == "list<u8>":
        return (value or "").encode()
    if outer == "list":
        return [argument(one, inner, file) for one in value or []]
    if kind == "blob":
        return Blob(value)
    defined = TYPES.get(f"{file}.{kind}", TYPES.get(kind))
    if isinstance(defined, str):
        return argument(value, defined, file)
    if defined is None:
        return {"string": "", "bool": False}.get(kind) if value is None else value
    form, file, name, members = defined
    module = importlib.import_module(f"wit_world.imports.{snake(file)}")
    name = name.title().replace("-", "")
    if form == "record":
        value = {**DEFAULTS.get(kind, {}), **(value or {})}
        return getattr(module, name)(*[argument(value.get(one), type_, file) for one, type_ in members.items()])
    if form == "enum":
        return getattr(module, name)[snake(value or list(members)[0]).upper()]
    [(case, inner)] = value.items() if isinstance(value, dict) else [(value, None)]
    created = getattr(module, f"{name}_{case.title().replace('-', '')}")
    return created(argument(inner, members[case], file)) if members[case] else created()


def to_json(value):
    """Converts a result to JSON in the names of the contract."""
    if isinstance(value, enum.Enum):
        return value.name.lower().replace("_", "-")
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Blob):
        return to_json(value.read(0, value.size()))
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

    host.settings.update(scenario.get("settings", {}))

    def implementation(call):
        file, name = map(snake, call.split("."))
        return getattr(getattr(host, file, None), name, None)

    def deliver(message):
        message = values.fill(message)
        sign_in(host, accounts[0], accounts[0])
        fields = {snake(name): value for name, value in message.items() if name != "from"}
        fields["files"] = [
            File(**{snake(name): value for name, value in file.items()}) for file in message.get("files", [])
        ]
        host.deliver(message["from"], **{"to": [], "date": 0, **fields})

    for name in accounts:
        host.sign_in(values.fill(f"{{{name}}}"))
    messages = scenario.get("messages", [])
    called = [step["call"] for step in steps if "call" in step]
    missing = [call for call in called if implementation(call) is None]
    if missing:
        return missing
    for message in messages:
        deliver(message)
    for index, step in enumerate(steps):
        if "deliver" in step:
            deliver(step["deliver"])
        host.now += step.get("advance", 0) * 1000
        if "call" not in step:
            continue
        call = step["call"]
        sign_in(host, step.get("as", scenario.get("as")), accounts[0])
        given = values.fill(step.get("with", {}))
        taken = [argument(given.get(name), kind, call.split(".")[0]) for name, kind in parameters(call)]
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
