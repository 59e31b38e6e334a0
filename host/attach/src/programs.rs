//! Runs the programs of Dovecot and Postfix.

use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, bail};

/// The result of a program.
pub(super) struct ProgramOutput {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs a program. Returns its output even if the program fails.
///
/// # Errors
/// Returns an error if the program is missing.
pub(super) fn output(program: &str, arguments: &[&str]) -> anyhow::Result<ProgramOutput> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{program}`"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(ProgramOutput {
        status: output.status,
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    })
}

/// Runs a program and returns its standard output.
///
/// # Errors
/// Returns an error with the program's error text if the program is missing or its exit status is
/// not 0.
pub fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = output(program, arguments)?;
    if !output.status.success() {
        let reason = match output.stderr.trim() {
            "" => output.status.to_string(),
            text => text.to_owned(),
        };
        bail!("`{program} {}` failed: {reason}", arguments.join(" "));
    }
    Ok(output.stdout)
}

/// Returns the users that Dovecot lists, one per line. Many user sources cannot list users.
///
/// # Errors
/// Returns an error if Dovecot cannot list its users.
pub fn listed_users(dovecot_config: &str) -> anyhow::Result<String> {
    run("doveadm", &["-c", dovecot_config, "user", "*"])
}
