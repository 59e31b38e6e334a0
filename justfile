# The tasks of Latchmail. Run them with `./just`, which installs just if necessary.

set shell := ["bash", "-euo", "pipefail", "-c"]

export PATH := env("PATH") + ":" + env("XDG_CACHE_HOME", env("HOME") / ".cache") / "latchmail/bin"
export CARGO_TARGET_DIR := env("CARGO_TARGET_DIR", justfile_directory() / "target")

[private]
default:
    @{{ just_executable() }} --justfile {{ quote(justfile()) }} --list --unsorted

[doc("Start the service with its own mail servers; --database postgres://… uses PostgreSQL instead of SQLite")]
[positional-arguments]
run *arguments:
    @exec ./scripts/run "$@"

# Run all tests; with a part of a test's name, only these tests, with what they need
[positional-arguments]
test *arguments:
    @./scripts/prepare-tests "$@"
    ./scripts/with-servers ./scripts/test "$@"

# Run the tests of one crate that need no servers: `./just try CRATE [NAME]`
[positional-arguments]
try *arguments: (setup "--try")
    @./scripts/try "$@"

[doc("Run all tests, also the long ones, all service tests on PostgreSQL too, the tests of the routes with users of the mail server's own too, and without arguments those of the package and the image")]
[positional-arguments]
test-all *arguments: build-tests
    ./scripts/build-previous
    ./scripts/with-servers ./scripts/test --all "$@"
    [[ $# -gt 0 ]] || {{ quote(just_executable()) }} --justfile {{ quote(justfile()) }} test-deb test-image

# Run the service tests N times in random orders; --loaded runs four busy loops at the same time
[positional-arguments]
test-repeat *arguments: build-tests
    ./scripts/with-servers ./scripts/test-repeat "$@"

[doc("Run the fuzz targets for the parsers and encoders of mail: `./just fuzz [TARGET|all] [SECONDS]`, each for 20 minutes by default")]
[positional-arguments]
fuzz *arguments:
    @./scripts/fuzz "$@"

# Build everything that the tests need
build-tests: (setup "--tests")
    ./scripts/build-tests

# Check format, lints, sizes, the WIT contract, scripts, packaging, licences and advisories
check: (setup "--check")
    cargo fmt --all --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check
    # This also checks wit/, because the bindings are generated from it.
    ./scripts/each-crate native clippy --all-targets --locked -- -D warnings
    ./scripts/each-crate wasm clippy --target wasm32-wasip2 --locked -- -D warnings
    sh -n just
    for script in scripts/*.sh scripts/run scripts/setup scripts/with-servers scripts/test scripts/try scripts/prepare-tests scripts/each-crate scripts/build-components scripts/build-examples scripts/build-previous scripts/build-project scripts/build-tests scripts/check-dependencies scripts/check-packaging scripts/deb scripts/deb-lifecycle scripts/follow scripts/image scripts/fuzz scripts/fuzz-api/run scripts/as-root scripts/bench scripts/debian-root scripts/in-root scripts/screenshots scripts/test-deb scripts/test-image scripts/try-on .ci/run host/mailserver/src/supervisor.sh; do bash -n "$script"; done
    ./scripts/check-dependencies
    ./scripts/check-packaging
    ./scripts/check-code

[doc("Run the benchmarks; --profile ROUTE profiles an operation, --against COMMIT compares the speed with that of a commit, --help lists all options")]
[positional-arguments]
bench *arguments: (setup "--bench") (modules "component") (fixtures "component")
    @./scripts/bench "$@"

[doc("Call the service with half of its maximum load for an hour, or `./just soak MINUTES`; fails if a request fails, or if memory or descriptors grow steadily")]
[positional-arguments]
soak *arguments: (setup "--bench") (modules "component") (fixtures "component")
    @./scripts/bench --soak "$@"

# Change a mailbox at random, and compare the clients that follow it: bench/feeds/README.md
[positional-arguments]
bench-feeds *arguments: setup modules
    cargo build --locked -p latchmail
    ./scripts/as-root bench-feeds python3 -B bench/feeds/run.py --program "$CARGO_TARGET_DIR/debug/latchmail" --modules "$CARGO_TARGET_DIR/modules" "$@"

# Take the screenshots of docs/admin.md again
screenshots: build-tests
    ./scripts/screenshots

# Fuzz the API of a private service with all kinds of credentials; --help lists the options
[positional-arguments]
fuzz-api *arguments: setup modules
    cargo build --locked -p latchmail
    ./scripts/as-root fuzz-api ./scripts/fuzz-api/run --program "$CARGO_TARGET_DIR/debug/latchmail" --modules "$CARGO_TARGET_DIR/modules" "$@"

# Run JMAP clients by other authors, and the tests of JMAP, against a private service
[positional-arguments]
jmap-clients *arguments: setup modules
    cargo build --locked -p latchmail
    ./scripts/as-root jmap-clients ./scripts/jmap/run --program "$CARGO_TARGET_DIR/debug/latchmail" --modules "$CARGO_TARGET_DIR/modules" "$@"

# Build the program for operators, <target>/release/latchmail, which contains the modules
build: (setup "--build")
    ./scripts/build-components components "$CARGO_TARGET_DIR/embedded" component
    LATCHMAIL_EMBED_MODULES="$CARGO_TARGET_DIR/embedded" cargo build --locked --release -p latchmail --features embed-modules

# Build the Debian package; the last line is the name of its file
deb: (setup "--deb") build
    @./scripts/deb

# Test the Debian package in a new Debian 12 and a new Debian 13
test-deb: deb (setup "--tests")
    ./scripts/test-deb

# Build the container image; the last line is its name
image: (setup "--image") build
    @./scripts/as-root image ./scripts/image

# Test the container image with podman
test-image: (setup "--test-image") build
    ./scripts/test-image

# Build the modules into <target>/modules; `component` builds the release versions
modules profile="dev": setup
    ./scripts/build-components components "$CARGO_TARGET_DIR/modules" {{ profile }}

# Build the modules that only tests use into <target>/fixtures
fixtures profile="dev": setup
    ./scripts/build-components tests/fixtures "$CARGO_TARGET_DIR/fixtures" {{ profile }}

# Run all shell blocks of a page of docs/: `./just follow docs/modules.md`
follow page: setup
    ./scripts/follow {{ quote(page) }}

# Start a clean clone of the repository on another system: `./just try-on trixie` (Debian 13)
try-on system:
    ./scripts/try-on {{ quote(system) }}

[doc("Install missing dependencies: the Rust toolchain, Dovecot, Postfix; --build: only the toolchain; --try: also cargo-nextest; --mail-tests: also PostgreSQL; --deb, --image and --test-image: the tools of these tasks; --check: also cargo-deny; --bench: also PostgreSQL; --profile: also perf and inferno; --tests: also PostgreSQL, HAProxy, Redis, Chromium, cargo-nextest, componentize-js, componentize-py, MCP clients, the MCP conformance suite, client generators, and clients of TLS and HTTP/2")]
[positional-arguments]
setup *arguments:
    @./scripts/setup "$@"
