//! Runs the programs of Dovecot and Postfix.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Runs a program and returns its standard output.
///
/// # Errors
/// Returns an error with the program's error text if the program is missing or its exit status is not 0.
pub(crate) fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{program}`"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let text = text.trim();
        let reason = if text.is_empty() {
            output.status.to_string()
        } else {
            text.to_owned()
        };
        bail!("`{program} {}` failed: {reason}", arguments.join(" "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the users that Dovecot lists, one per line. Many user sources cannot list users.
///
/// # Errors
/// Returns an error if Dovecot cannot list its users.
pub(crate) fn listed_users(dovecot_config: &str) -> anyhow::Result<String> {
    run("doveadm", &["-c", dovecot_config, "user", "*"])
}
