# The tasks of Latchmail. `./just` runs them with a just of its own where the machine has none.

set shell := ["bash", "-euo", "pipefail", "-c"]

export PATH := env("PATH") + ":" + env("XDG_CACHE_HOME", env("HOME") / ".cache") / "latchmail/bin"
export CARGO_TARGET_DIR := env("CARGO_TARGET_DIR", justfile_directory() / "target")

[private]
default:
    @{{ just_executable() }} --justfile {{ quote(justfile()) }} --list --unsorted

# Start the service with mail servers of its own; --database postgres://… keeps the directory there
[positional-arguments]
run *arguments:
    @exec ./scripts/run "$@"

# Run every test; arguments go to cargo nextest run
[positional-arguments]
test *arguments: build-tests
    ./scripts/with-servers ./scripts/test "$@"

# Run every test, the long ones and all service tests on PostgreSQL too
[positional-arguments]
test-all *arguments: build-tests
    ./scripts/with-servers ./scripts/test --all "$@"

# Run the service tests N times, each time in another order; --loaded runs four busy loops beside them
[positional-arguments]
test-repeat *arguments: build-tests
    ./scripts/with-servers ./scripts/test-repeat "$@"

# Compile everything that the tests run, and run nothing
build-tests: (setup "--tests")
    ./scripts/build-tests

# Check format, lints, the WIT contract, scripts, licences and advisories
check: (setup "--check")
    cargo fmt --all --check
    # The bindings parse and resolve the whole of wit/; a contract that is not valid does not compile.
    ./scripts/each-crate native clippy --all-targets --locked -- -D warnings
    ./scripts/each-crate wasm clippy --target wasm32-wasip2 --locked -- -D warnings
    sh -n just
    for script in scripts/*.sh scripts/run scripts/setup scripts/with-servers scripts/test scripts/each-crate scripts/build-components scripts/build-examples scripts/build-project scripts/build-tests scripts/check-dependencies scripts/follow scripts/as-root scripts/debian-root scripts/in-root scripts/try-on .ci/run host/src/dev/keeper.sh; do bash -n "$script"; done
    ./scripts/check-dependencies

# Measure the service beside raw IMAP and the sandbox beside native code; --quick for a short run, --strict to fail on a missed target
[positional-arguments]
bench *arguments: setup (modules "component") (fixtures "component")
    cargo build --locked --release -p latchmail-bench
    # Apart from it: what is measured is the program without what is there for tests.
    cargo build --locked --release -p latchmail
    "$CARGO_TARGET_DIR/release/latchmail-bench" --host "$CARGO_TARGET_DIR/release/latchmail" --modules "$CARGO_TARGET_DIR/modules" \
        --fixtures "$CARGO_TARGET_DIR/fixtures" --results "$CARGO_TARGET_DIR/bench" "$@"

# Build the modules into <target>/modules; `component` builds them as they are released
modules profile="dev": setup
    ./scripts/build-components components "$CARGO_TARGET_DIR/modules" {{ profile }}

# Build the modules that the tests try the sandbox with into <target>/fixtures
fixtures profile="dev": setup
    ./scripts/build-components tests/fixtures "$CARGO_TARGET_DIR/fixtures" {{ profile }}

# Do what a page of docs/ says, pasting its blocks one after the other: `./just follow docs/modules.md`
follow page: setup
    ./scripts/follow {{ quote(page) }}

# Start a clean clone on another system and do what it says to try: `./just try-on trixie`, Debian 13
try-on system:
    ./scripts/try-on {{ quote(system) }}

# Install what is missing: the Rust toolchain, Dovecot, Postfix; with --check cargo-deny; with --tests PostgreSQL, Chromium, cargo-nextest, componentize-js, componentize-py, the protocol's own clients and conformance suite, and generators of clients too
[positional-arguments]
setup *arguments:
    @./scripts/setup "$@"
