//! The configuration of a service for tests, and services that do not start.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;

use latchmail_core::clock::Clock;
use latchmail_core::config::{BUILT_IN, BuiltInModule, Config};
use latchmail_core::error::StartError;
use latchmail_core::limits::Bucket;
use latchmail_service::Running;

use crate::MailServers;
use crate::built::{cache, modules};
use crate::mail_servers::AUTHSERV_ID;
use crate::service::DOMAIN;
use crate::test_run::foreign_aliases;

/// Returns the error with which the service refuses to start with these additional lines of
/// configuration. No mail server is started.
pub async fn start_error(settings: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    match start_without_mail(folder.path(), settings).await {
        Ok(running) => {
            running.stop().await;
            panic!("the service started")
        }
        Err(refused) => refused.to_string(),
    }
}

/// Returns why a module cannot be loaded with these additional lines of configuration. Exactly one
/// module must fail. No mail server is started.
pub async fn load_problem(settings: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let running = start_without_mail(folder.path(), settings).await.unwrap();
    let listed = running.app.module_manager.list();
    running.stop().await;
    let mut problems: Vec<String> = listed.into_iter().filter_map(|m| m.problem).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0)
}

async fn start_without_mail(folder: &Path, settings: &str) -> Result<Running, StartError> {
    let mailserver = folder.join("mailserver/mailserver.db");
    let config = parsed(&self::settings(folder, &mailserver, None, "", settings));
    latchmail_service::start(config, Clock::system()).await
}

/// Returns limits that no test reaches.
pub(crate) fn high_limits() -> String {
    Bucket::ALL
        .iter()
        .map(|bucket| bucket.name())
        .chain(["sign_in_address"])
        .map(|name| format!("limits.{name} = 100000"))
        .collect::<Vec<_>>()
        .join("\n")
}

pub(crate) fn parsed(settings: &str) -> Config {
    Config::parse(settings, "test", HashMap::new()).unwrap()
}

pub(crate) fn settings(
    state: &Path,
    mailserver: &Path,
    mail: Option<&MailServers>,
    limits: &str,
    own: &str,
) -> String {
    // Nothing listens on this port.
    let unused = SocketAddr::from(([127, 0, 0, 1], 1));
    let state = state.display();
    let doveadm = mail.map_or_else(String::new, MailServers::doveadm_settings);
    let built_in = BUILT_IN.map(|module| {
        let BuiltInModule {
            name,
            grants,
            paths,
        } = module;
        let source = modules().join(module.file_name());
        format!(
            "modules.{name}.source = '{}'\nmodules.{name}.grants = {grants:?}\nmodules.{name}.paths = {paths:?}\n",
            source.display()
        )
    });
    let built_in = built_in.concat();
    // The test's own lines come last and in dotted form, so they override the lines above.
    let text = format!(
        "listen = '127.0.0.1:0'
base_url = 'http://service.test'
key_file = '{state}/latchmail.key'
admin.socket = '{state}/admin.sock'
cache_dir = '{cache}'
index.path = '{state}/index'
export.path = '{state}/exports'
database.url = 'sqlite:{state}/latchmail.db'
database.mailserver = '{mailserver}'
imap.address = '{imap}'
{doveadm}
smtp.address = '{smtp}'
sieve.address = '{sieve}'
registration.domains = ['{DOMAIN}', 'second.test']
inbound.authserv_id = '{AUTHSERV_ID}'
log.filter = 'warn'
{built_in}modules.aliases.reuse = {reuse}
{limits}
",
        // A module in an interpreted language needs `reuse`, as in production.
        reuse = foreign_aliases().is_some(),
        cache = cache().display(),
        imap = mail.map_or(unused, |servers| servers.imap),
        smtp = mail.map_or(unused, |servers| servers.submission),
        sieve = mail.map_or(unused, |servers| servers.sieve),
        mailserver = mailserver.display(),
    );
    let kept: String = text
        .lines()
        .filter(|line| {
            let key = line.split(" = ").next().unwrap_or_default();
            !own.lines().any(|own| own.starts_with(&format!("{key} = ")))
        })
        .fold(String::new(), |text, line| text + line + "\n");
    kept + own
}
