//! Errors of `./just run` on a machine that lacks requirements, before anything is compiled; and a
//! run beside other mail servers.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use latchmail_tests::{cache, modules, program};
use tempfile::TempDir;

/// Returns the project's folder.
fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Creates a folder that every user can enter.
fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("lm").tempdir().unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    folder
}

/// Runs a command that must fail without compiling, and returns its last line.
fn last_line_of_failure(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success(),
        "the command did not fail: {printed}"
    );
    assert!(!printed.contains("Compiling"), "{printed}");
    printed.lines().last().unwrap_or_default().to_owned()
}

fn run() -> Command {
    let mut run = Command::new(project().join("scripts/run"));
    run.env("LATCHMAIL_LISTEN", "127.0.0.1:0");
    run
}

/// Creates a folder with links to the system's programs, except for some.
fn programs_without(folder: &Path, without: &[&str]) -> PathBuf {
    let programs = folder.join("bin");
    std::fs::create_dir(&programs).unwrap();
    for program in std::fs::read_dir("/usr/bin").unwrap().flatten() {
        let name = program.file_name();
        if !without.iter().any(|one| name == *one) {
            symlink(program.path(), programs.join(name)).unwrap();
        }
    }
    programs
}

#[test]
fn a_port_in_use_is_named_with_a_solution() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = listener.local_addr().unwrap().to_string();
    assert_eq!(
        last_line_of_failure(run().env("LATCHMAIL_LISTEN", &listen)),
        format!(
            "run: {listen} is in use by another program; to use any free port, run: LATCHMAIL_LISTEN=127.0.0.1:0 ./just run"
        )
    );
}

#[test]
fn without_a_rust_toolchain_the_error_names_its_source() {
    let folder = folder();
    let programs = programs_without(folder.path(), &["cargo", "rustc", "rustup"]);
    assert_eq!(
        last_line_of_failure(run().env("PATH", programs)),
        "setup: Rust is not installed; see https://rustup.rs"
    );
}

/// A stub of `uname`, because the tests run on Linux.
#[test]
fn an_unsupported_operating_system_is_named() {
    let folder = folder();
    let programs = programs_without(folder.path(), &["uname"]);
    let uname = programs.join("uname");
    std::fs::write(&uname, "#!/bin/sh\necho Darwin\n").unwrap();
    std::fs::set_permissions(&uname, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        last_line_of_failure(run().env("PATH", programs)),
        "run: the mail servers run on Linux, not on Darwin; use a virtual machine or a container with Debian or Ubuntu"
    );
}

#[test]
fn a_linux_without_debian_packages_gets_a_list_of_missing_programs() {
    let folder = folder();
    let programs = programs_without(folder.path(), &["apt-get", "dpkg-query"]);
    let cargo = std::env::var("CARGO_HOME")
        .unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap()));
    let path = format!("{}:{cargo}/bin", programs.display());
    // Hides Postfix from this process only.
    let hidden = "mount -t tmpfs none /usr/lib/postfix && exec \"$0\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "bash", "-c", hidden])
        .arg(project().join("scripts/run"))
        .env("LATCHMAIL_LISTEN", "127.0.0.1:0")
        .env("PATH", path);
    let printed = last_line_of_failure(&mut command);
    let expected = "setup: this is neither Debian nor Ubuntu, and Dovecot or Postfix is missing; install the equivalents of dovecot-core ";
    assert!(printed.starts_with(expected), "{printed}");
}

/// In the tests' Debian 13, which has no PostgreSQL, without any network.
#[test]
fn missing_packages_without_a_network_are_named() {
    let home = std::env::var("HOME").unwrap();
    let cache = std::env::var("XDG_CACHE_HOME").unwrap_or_else(|_| format!("{home}/.cache"));
    let mut command = Command::new("unshare");
    command
        .arg("--net")
        .arg(project().join("scripts/in-root"))
        .arg(Path::new(&cache).join("latchmail/debian-13"))
        .arg(project().join("scripts/setup"))
        .arg("--tests");
    let printed = last_line_of_failure(&mut command);
    let expected = "setup: apt-get could not install the missing packages (see its messages above); with a network: apt-get install make postgresql ";
    assert!(printed.starts_with(expected), "{printed}");
}

#[test]
fn a_user_without_subordinate_ids_gets_the_command_with_sudo() {
    let folder = folder();
    let scripts = folder.path().join("scripts");
    std::fs::create_dir(&scripts).unwrap();
    for script in ["run", "as-root"] {
        let from = project().join("scripts").join(script);
        std::fs::copy(from, scripts.join(script)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(scripts.join("run"))
        .env("LATCHMAIL_LISTEN", "127.0.0.1:0");
    let printed = last_line_of_failure(&mut command);
    assert!(printed.starts_with("run: the mail servers "), "{printed}");
    let way_out = r#"; run: sudo env "HOME=$HOME" "PATH=$PATH" ./just run"#;
    assert!(printed.ends_with(way_out), "{printed}");
}

/// Copies `scripts/run` to a folder with stubs of the other scripts and of `cargo`. The stub writes
/// the variable `CARGO_INCREMENTAL` to the file `builds`.
fn copy_of_run(folder: &Path) -> Command {
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    for script in ["run", "progress.sh"] {
        let text = std::fs::read_to_string(project().join("scripts").join(script)).unwrap();
        write(&format!("scripts/{script}"), &text);
    }
    write("scripts/setup", "#!/bin/sh\n");
    write("scripts/build-components", "#!/bin/sh\n");
    write("scripts/as-root", "#!/bin/sh\nshift\nexec \"$@\"\n");
    let cargo = "#!/bin/sh\necho \"${CARGO_INCREMENTAL-unset}\" >>builds\n\
        mkdir -p target/debug/incremental\ncp /bin/true target/debug/latchmail\n";
    write("bin/cargo", cargo);
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(folder.join("scripts/run"));
    command
        .env("PATH", format!("{}:{path}", folder.join("bin").display()))
        .env("LATCHMAIL_LISTEN", "127.0.0.1:0")
        .env_remove("CARGO_INCREMENTAL")
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null());
    command
}

#[test]
fn a_second_start_does_not_change_the_kind_of_the_build() {
    let folder = folder();
    let builds = || std::fs::read_to_string(folder.path().join("builds")).unwrap_or_default();
    for expected in ["0\n", "0\n0\n"] {
        let output = copy_of_run(folder.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(builds(), expected);
    }
    // `cargo test` makes an incremental build.
    std::fs::create_dir(folder.path().join("target/debug/incremental/latchmail-1")).unwrap();
    copy_of_run(folder.path()).output().unwrap();
    assert_eq!(builds(), "0\n0\nunset\n");
}

#[test]
fn help_builds_nothing() {
    let folder = folder();
    for arguments in [&["--help"][..], &["-h"], &["--watch", "x", "--help"]] {
        let output = copy_of_run(folder.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.starts_with("Usage: ./just run"), "{printed}");
        assert!(!folder.path().join("builds").exists(), "{arguments:?}");
    }
}

#[test]
fn missing_modules_of_tests_are_named_with_a_solution() {
    let folder = folder();
    let mut command = Command::new(project().join("scripts/with-servers"));
    command.arg("false").env("CARGO_TARGET_DIR", folder.path());
    let modules = folder.path().join("modules").display().to_string();
    assert_eq!(
        last_line_of_failure(&mut command),
        format!(
            "with-servers: warning: {modules} contains no modules, so tests that start the service will fail; run: ./scripts/build-components components {modules}"
        )
    );
}

/// Another Dovecot and Postfix use the standard ports and folders, in a separate network namespace.
#[test]
fn the_service_runs_beside_other_mail_servers() {
    let folder = folder();
    let script = r#"
        state=$1 program=$2
        ip link set lo up
        mount -t tmpfs none /run
        mount -t tmpfs none /var/spool/postfix
        mount -t tmpfs none /var/lib/postfix
        postfix=$state/postfix
        mkdir /run/dovecot "$postfix"
        echo compatibility_level=3.6 >"$postfix/main.cf"
        cp /etc/postfix/master.cf.proto "$postfix/master.cf"
        postconf -c "$postfix" -e inet_interfaces=127.0.0.1 maillog_file="$state/log" maillog_file_prefixes="$state"
        # Not the machine's own configuration, whose keys root of a user namespace cannot read.
        case $(dovecot --version) in 2.4*) printf 'dovecot_%s_version = 2.4.1\n' config storage ;; esac >"$state/other.conf"
        printf '%s = %s\n' protocols imap ssl no >>"$state/other.conf"
        dovecot -F -c "$state/other.conf" &
        postfix -c "$postfix" start
        port() { for ((i = 0; i < 200; i++)); do (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return; sleep 0.05; done; echo "nothing at $1" >&2; return 1; }
        port 143 && port 25 || exit 1
        "$program" dev &
        service=$!
        for ((i = 0; i < 1200; i++)); do [[ -s $state/run.json ]] && break; kill -0 $service || exit 1; sleep 0.05; done
        grep -q baseUrl "$state/run.json" && port 143 && port 25
        status=$?
        kill -INT $service
        wait $service
        postfix -c "$postfix" stop
        kill %1
        exit $status
    "#;
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private", "--pid"])
        .args(["--fork", "--kill-child", "--mount-proc", "bash", "-c"])
        .args([script, "beside"])
        .arg(folder.path())
        .arg(program())
        .env("LATCHMAIL_STATE", folder.path())
        .env("LATCHMAIL_MODULES", modules())
        .env("LATCHMAIL_CACHE_DIR", cache())
        .env("LATCHMAIL_LISTEN", "127.0.0.1:0")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
}
