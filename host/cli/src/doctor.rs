//! `latchmail doctor`: checks the configuration, the files, the database, the mail servers, Redis,
//! the identity provider, the DNS records and the limits of the system.
//!
//! The checks change nothing. They work while the service runs and while it is stopped. A failed
//! check does not prevent other checks. Each check that uses the network or another program ends
//! within [`TIMEOUT`].

mod certificates;
mod database;
mod dns;
mod files;
mod finding;
mod identity_provider;
mod index;
mod limits;
mod notices;
mod programs;
mod redis;
mod user;

use std::time::Duration;

use anyhow::bail;
use latchmail_core::config::Config;
use latchmail_mailbox::server_checks;
use latchmail_terminal::output::print_lines;

use self::finding::{Finding, Status};
use self::user::ServiceUser;
pub(crate) use self::user::find_running;
use crate::context::ServiceArgs;

/// The time limit of a check.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the command.
///
/// # Errors
/// Returns an error if a check failed, or if the output cannot be written.
pub async fn run(service: &ServiceArgs, json: bool) -> anyhow::Result<()> {
    let findings = match service.load_config() {
        Ok(config) => Box::pin(check(&config)).await,
        Err(error) => check_without_configuration(&error).await,
    };
    let format = if json { finding::json } else { finding::line };
    print_lines(findings.iter().map(format))?;
    let is_failed = |finding: &&Finding| finding.status == Status::Failed;
    let failed = findings.iter().filter(is_failed).count();
    if failed > 0 {
        bail!("{failed} of {} checks failed", findings.len());
    }
    Ok(())
}

/// Runs all checks. The checks that wait for other programs run concurrently.
async fn check(config: &Config) -> Vec<Finding> {
    let running = user::find_running(config).await;
    let user = ServiceUser::find(config, running).await;
    let is_running = running.is_some();
    let (database, redis, imap, doveadm, notices, smtp, sieve, provider, tls, dns, clock, versions) = tokio::join!(
        database::check(config),
        redis::check(config),
        server_checks::check_imap(config),
        server_checks::check_doveadm(config),
        notices::check(config, &user, is_running),
        server_checks::check_smtp(config),
        server_checks::check_sieve(config),
        identity_provider::check(config),
        certificates::check(config),
        dns::check(config, &user),
        programs::check_clock(),
        programs::check_versions(Some(config)),
    );
    let accounts = database.accounts;
    let mut findings = files::check_configuration(config, &user);
    findings.push(files::check_key(config, &user));
    findings.push(database.finding);
    findings.extend(redis);
    findings.extend(files::check_folders(config, &user));
    findings.push(index::check(config, &user));
    findings.extend([imap, doveadm, notices, smtp, sieve]);
    findings.extend(provider);
    findings.extend(tls);
    findings.extend(dns);
    findings.push(clock);
    findings.push(limits::check_inotify(config, accounts));
    let pid = running.and_then(|process| process.pid());
    findings.push(limits::check_descriptors(config, accounts, pid));
    findings.extend(versions);
    findings
}

/// Reports that the configuration cannot be used. Runs only the checks that do not need the
/// configuration.
async fn check_without_configuration(error: &anyhow::Error) -> Vec<Finding> {
    let (clock, versions) = tokio::join!(programs::check_clock(), programs::check_versions(None));
    let configuration = Finding::failed(
        "configuration",
        format!("{error:#}"),
        "correct the file or the environment variable; docs/configuration.md describes all keys",
    );
    let mut findings = vec![configuration, clock];
    findings.extend(versions);
    findings
}
