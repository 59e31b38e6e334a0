# The tasks of Latchmail. `./just` runs them, and installs just if the machine has none.

set shell := ["bash", "-euo", "pipefail", "-c"]

export PATH := env("PATH") + ":" + env("XDG_CACHE_HOME", env("HOME") / ".cache") / "latchmail/bin"
export CARGO_TARGET_DIR := env("CARGO_TARGET_DIR", justfile_directory() / "target")

[private]
default:
    @{{ just_executable() }} --justfile {{ quote(justfile()) }} --list --unsorted

# Start the service with its own mail servers; --database postgres://… keeps the directory in PostgreSQL
[positional-arguments]
run *arguments:
    @exec ./scripts/run "$@"

# Run all tests; arguments go to cargo nextest run
[positional-arguments]
test *arguments: build-tests
    ./scripts/with-servers ./scripts/test "$@"

# Run all tests, including the long ones, and all service tests on PostgreSQL too
[positional-arguments]
test-all *arguments: build-tests
    ./scripts/with-servers ./scripts/test --all "$@"

# Run the service tests N times in different orders; --loaded runs four busy loops at the same time
[positional-arguments]
test-repeat *arguments: build-tests
    ./scripts/with-servers ./scripts/test-repeat "$@"

# Run the fuzz targets for the parsers and encoders of mail: `./just fuzz [TARGET|all] [SECONDS]`, each for 20 minutes by default
[positional-arguments]
fuzz *arguments:
    @./scripts/fuzz "$@"

# Build everything that the tests need, without running them
build-tests: (setup "--tests")
    ./scripts/build-tests

# Check format, lints, the WIT contract, scripts, licences and advisories
check: (setup "--check")
    cargo fmt --all --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check
    # This also checks wit/: the bindings parse all of it, so an invalid contract does not compile.
    ./scripts/each-crate native clippy --all-targets --locked -- -D warnings
    ./scripts/each-crate wasm clippy --target wasm32-wasip2 --locked -- -D warnings
    sh -n just
    for script in scripts/*.sh scripts/run scripts/setup scripts/with-servers scripts/test scripts/each-crate scripts/build-components scripts/build-examples scripts/build-project scripts/build-tests scripts/check-dependencies scripts/follow scripts/fuzz scripts/fuzz-api/run scripts/as-root scripts/debian-root scripts/in-root scripts/try-on .ci/run host/mailserver/src/supervisor.sh; do bash -n "$script"; done
    ./scripts/check-dependencies

# Compare the service with raw IMAP, and the sandbox with native code; --quick for a short run, --strict to fail on a missed target
[positional-arguments]
bench *arguments: setup (modules "component") (fixtures "component")
    cargo build --locked --release -p latchmail-bench
    # A separate build, so that the measured program has no features for tests.
    cargo build --locked --release -p latchmail
    "$CARGO_TARGET_DIR/release/latchmail-bench" --host "$CARGO_TARGET_DIR/release/latchmail" --modules "$CARGO_TARGET_DIR/modules" \
        --fixtures "$CARGO_TARGET_DIR/fixtures" --results "$CARGO_TARGET_DIR/bench" "$@"

# Fuzz the API from its description, with every kind of credential, against a private service; --help lists the options
[positional-arguments]
fuzz-api *arguments: setup modules
    cargo build --locked -p latchmail
    ./scripts/as-root fuzz-api ./scripts/fuzz-api/run --program "$CARGO_TARGET_DIR/debug/latchmail" --modules "$CARGO_TARGET_DIR/modules" "$@"

# Build the modules into <target>/modules; `component` builds the release versions
modules profile="dev": setup
    ./scripts/build-components components "$CARGO_TARGET_DIR/modules" {{ profile }}

# Build the modules for tests of the sandbox into <target>/fixtures
fixtures profile="dev": setup
    ./scripts/build-components tests/fixtures "$CARGO_TARGET_DIR/fixtures" {{ profile }}

# Run all shell blocks of a page of docs/, one after another: `./just follow docs/modules.md`
follow page: setup
    ./scripts/follow {{ quote(page) }}

# Start a clean clone on another system and run the suggested commands: `./just try-on trixie`, Debian 13
try-on system:
    ./scripts/try-on {{ quote(system) }}

# Install what is missing: the Rust toolchain, Dovecot, Postfix; with --check cargo-deny; with --tests PostgreSQL, Chromium, cargo-nextest, componentize-js, componentize-py, the protocol's own clients and conformance suite, and generators of clients too
[positional-arguments]
setup *arguments:
    @./scripts/setup "$@"
