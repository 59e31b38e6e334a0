//! Finds the ports at which the service reaches the mail server.

use latchmail_core::config::{Imap, Sieve, Smtp};
use latchmail_imap::Connector;
use latchmail_mailbox::outbox;

/// Returns the settings for IMAP: the configured address, or port 993 of the machine itself.
///
/// # Errors
/// Returns an error if no address responds.
pub(super) async fn imap(configured: &Imap) -> anyhow::Result<Imap> {
    let implicit_tls = Imap {
        address: "127.0.0.1:993".into(),
        tls: true,
        ..configured.clone()
    };
    let mut failures = Vec::new();
    for settings in [configured.clone(), implicit_tls] {
        match Connector::new(&settings)?.ping().await {
            Ok(()) => return Ok(settings),
            Err(error) => failures.push(error.to_string()),
        }
    }
    anyhow::bail!(
        "no IMAP service responds; set `imap.address`. {}",
        failures.join("; ")
    )
}

/// Returns the settings for `ManageSieve`: the configured address, or the standard port of the
/// machine itself. The address is empty if no server responds or the server lacks an extension that
/// the rules need.
pub(super) async fn sieve(configured: &Sieve, imap: &Imap) -> anyhow::Result<Sieve> {
    let standard = Sieve {
        address: "127.0.0.1:4190".into(),
    };
    for settings in [configured, &standard] {
        let Some(connector) = latchmail_sieve::Connector::new(settings, imap)? else {
            continue;
        };
        if connector
            .probe()
            .await
            .is_ok_and(|probe| probe.missing.is_empty())
        {
            return Ok(settings.clone());
        }
    }
    Ok(Sieve {
        address: String::new(),
    })
}

/// Returns the settings for submission: the first address that accepts a password.
///
/// # Errors
/// Returns an error if no address accepts a password.
pub(super) async fn smtp(configured: &Smtp) -> anyhow::Result<Smtp> {
    let at = |port: u16, tls, starttls| Smtp {
        address: format!("127.0.0.1:{port}"),
        tls,
        starttls,
        ..configured.clone()
    };
    let mut failures = Vec::new();
    for settings in [
        configured.clone(),
        at(465, true, false),
        at(587, false, true),
        at(587, false, false),
        at(25, false, true),
        at(25, false, false),
    ] {
        match outbox::probe(&settings).await {
            Ok(probe) if probe.auth_password => return Ok(settings),
            Ok(_) => failures.push(format!("{}: the server offers no AUTH", settings.address)),
            Err(error) => failures.push(error.to_string()),
        }
    }
    failures.dedup();
    anyhow::bail!(
        "no submission service accepts passwords; enable the service `submission` in master.cf, or set `smtp.address`. {}",
        failures.join("; ")
    )
}
