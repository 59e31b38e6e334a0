//! Checks the clock and the versions of the mail servers with the programs of the system.

use std::path::Path;
use std::process::Stdio;

use latchmail_core::config::Config;
use latchmail_core::network::is_on_this_machine;
use tokio::process::Command;
use tokio::time::timeout;

use super::TIMEOUT;
use super::finding::Finding;

const CLOCK: &str = "clock";
const VERSIONS: &str = "versions";

/// The file that systemd-timesyncd creates after it has synchronized the clock.
const TIMESYNCD: &str = "/run/systemd/timesync/synchronized";

/// The folders of programs. The search path of users other than root often has no folder `sbin`.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];

/// The first version of Postfix for which the templates work.
const FIRST_POSTFIX: (u32, u32) = (3, 6);

/// The setting that prevents SMTP smuggling (CVE-2023-51764). Distributions also add the setting to
/// older versions.
const SMUGGLING_FIX: &str = "smtpd_forbid_bare_newline";

/// Checks whether systemd-timesyncd, chrony or another time service has synchronized the clock.
pub(super) async fn check_clock() -> Finding {
    if Path::new(TIMESYNCD).exists() {
        return Finding::ok(CLOCK, "synchronized by systemd-timesyncd");
    }
    let (timedatectl, chrony) = tokio::join!(
        output("timedatectl", &["show", "-p", "NTPSynchronized", "--value"]),
        output("chronyc", &["-n", "tracking"]),
    );
    assess_clock(timedatectl.as_deref(), chrony.as_deref())
}

fn assess_clock(timedatectl: Option<&str>, chrony: Option<&str>) -> Finding {
    let leap_status = chrony.and_then(|text| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(key, value)| (key.trim() == "Leap status").then_some(value.trim()))
    });
    let synchronized = timedatectl.map(str::trim);
    if synchronized == Some("yes") || leap_status.is_some_and(|status| status == "Normal") {
        return Finding::ok(CLOCK, "synchronized");
    }
    let remedy = "start a time service such as systemd-timesyncd or chrony, because tokens and two-factor codes depend on the clock";
    if synchronized == Some("no") || leap_status.is_some() {
        return Finding::warning(CLOCK, "the clock is not synchronized", remedy);
    }
    Finding::warning(
        CLOCK,
        "cannot determine whether the clock is synchronized",
        "compare the output of `date -u` with another clock, and start a time service if there is none",
    )
}

/// Reports the versions of this program and of the mail servers on this machine. Without a
/// configuration, assumes that the mail servers are on this machine.
pub(super) async fn check_versions(config: Option<&Config>) -> Vec<Finding> {
    let is_local = |address: fn(&Config) -> &str| {
        config.is_none_or(|config| is_on_this_machine(address(config)))
    };
    let (dovecot, postfix) = tokio::join!(
        output("dovecot", &["--version"]),
        // The option `-d` prints default values, which need no configuration file. Postfix omits
        // unknown settings.
        output("postconf", &["-d", "mail_version", SMUGGLING_FIX]),
    );
    let latchmail = format!("Latchmail {}", env!("CARGO_PKG_VERSION"));
    let mut findings = vec![Finding::ok(VERSIONS, latchmail)];
    if is_local(|config| &config.imap.address) {
        findings.extend(dovecot.as_deref().map(assess_dovecot));
    }
    if is_local(|config| &config.smtp.address) {
        findings.extend(postfix.as_deref().map(assess_postfix));
    }
    findings
}

/// `output` is the output of `dovecot --version`.
fn assess_dovecot(output: &str) -> Finding {
    let version = output.split_whitespace().next().unwrap_or_default();
    let detail = format!("Dovecot {version}");
    match major_and_minor(version) {
        Some((2, 3 | 4)) => Finding::ok(VERSIONS, detail),
        _ => Finding::warning(
            VERSIONS,
            format!("{detail} is not a tested version"),
            "use Dovecot 2.3 or 2.4",
        ),
    }
}

/// `output` contains the lines `NAME = VALUE` of `postconf -d`.
fn assess_postfix(output: &str) -> Finding {
    let default = |name: &str| {
        let mut lines = output.lines().filter_map(|line| line.split_once(" = "));
        lines.find_map(|(key, value)| (key == name).then_some(value))
    };
    let version = default("mail_version").unwrap_or_default();
    let detail = format!("Postfix {version}");
    let remedy = "use Postfix 3.6.14, 3.7.10, 3.8.5, 3.9 or later, or a distribution's package with the fix for CVE-2023-51764";
    if major_and_minor(version).is_none_or(|version| version < FIRST_POSTFIX) {
        let detail = format!("{detail} is not a supported version");
        return Finding::warning(VERSIONS, detail, remedy);
    }
    if default(SMUGGLING_FIX).is_none() {
        let detail = format!(
            "{detail} does not have the setting `{SMUGGLING_FIX}`, so senders can hide a second message in a message"
        );
        return Finding::warning(VERSIONS, detail, remedy);
    }
    Finding::ok(VERSIONS, detail)
}

fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Runs a program and returns its standard output. Returns `None` if the program does not exist,
/// fails or does not end within [`TIMEOUT`].
pub(super) async fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let folders = FOLDERS.iter().map(|folder| Path::new(folder).join(program));
    let file = folders.into_iter().find(|file| file.is_file())?;
    let running = Command::new(file)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(TIMEOUT, running).await.ok()?.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn the_clock_is_synchronized_if_one_time_service_reports_it() {
        let tracking = |status| format!("Stratum         : 3\nLeap status     : {status}\n");
        for (timedatectl, chrony, expected) in [
            (Some("yes\n"), None, Status::Ok),
            (Some("no\n"), Some(tracking("Normal")), Status::Ok),
            (Some("no\n"), None, Status::Warning),
            (None, Some(tracking("Not synchronised")), Status::Warning),
            (None, None, Status::Warning),
        ] {
            let clock = assess_clock(timedatectl, chrony.as_deref());
            assert_eq!(clock.status, expected, "{clock:?}");
        }
    }

    #[test]
    fn dovecot_2_3_and_2_4_are_tested_versions() {
        for (version, expected) in [
            ("2.3.19.1 (9b53102964)\n", Status::Ok),
            ("2.4.1-4 (7d8c0e5759)\n", Status::Ok),
            ("2.2.36 (1f10bfa63)\n", Status::Warning),
            ("\n", Status::Warning),
        ] {
            let finding = assess_dovecot(version);
            assert_eq!(finding.status, expected, "{finding:?}");
        }
    }

    #[test]
    fn postfix_needs_the_fix_for_smtp_smuggling() {
        let fix = "smtpd_forbid_bare_newline = no\n";
        for (version, fix, expected) in [
            ("3.6.4", fix, Status::Ok),
            ("3.11-20260101", fix, Status::Ok),
            ("3.7.8", "", Status::Warning),
            ("3.5.25", fix, Status::Warning),
            ("", fix, Status::Warning),
        ] {
            let finding = assess_postfix(&format!("mail_version = {version}\n{fix}"));
            assert_eq!(finding.status, expected, "{finding:?}");
        }
    }
}
