//! Generates the configuration of `latchmail dev` as TOML text. Environment variables override the
//! settings.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use latchmail_core::caller::Scope;
use latchmail_core::config::BUILT_IN;
use latchmail_runtime::modules::GRANTABLE;

/// The addresses of the running mail servers.
#[derive(Clone, Debug)]
pub(crate) struct MailServers {
    pub(crate) imap: SocketAddr,
    pub(crate) submission: SocketAddr,
    pub(crate) doveadm: SocketAddr,
    pub(crate) sieve: SocketAddr,
    pub(crate) doveadm_key: PathBuf,
    pub(crate) notices: SocketAddr,
    pub(crate) notices_url: PathBuf,
}

/// Returns the configuration as TOML text. If `modules` is `None`, the configuration does not
/// contain sections for the built-in modules. If `servers` is `None`, the configuration does not
/// contain the addresses of the mail servers.
pub(crate) fn to_toml(
    state: &Path,
    mail: &Path,
    modules: Option<&Path>,
    database: Option<&str>,
    servers: Option<&MailServers>,
) -> String {
    let file = |folder: &Path, name: &str| toml_string(&folder.join(name).to_string_lossy());
    let url = database.map_or_else(
        || format!("sqlite:{}", state.join("latchmail.db").display()),
        Into::into,
    );
    let list = |items: &[&str]| serde_json::json!(items).to_string();
    let section = |folder: &Path| {
        BUILT_IN
            .map(|module| {
                format!(
                    "[modules.{name}]\nsource = {source}\ngrants = {grants}\npaths = {paths}\n",
                    name = module.name,
                    source = file(folder, &module.file_name()),
                    grants = list(module.grants),
                    paths = list(module.paths),
                )
            })
            .join("\n")
    };
    let sections = modules.map(section).unwrap_or_default();
    let mut text = format!(
        "key_file = {key}
cache_dir = {cache}

[admin]
listen = \"127.0.0.1:0\"
socket = {socket}

# A developer's own modules may import every interface that can be granted, and their handlers may
# have every scope.
[new_modules]
grants = {grants}
scopes = {scopes}

[database]
url = {url}
mailserver = {mailserver}

[inbound]
authserv_id = \"mail.latchmail.test\"

[registration]
domains = [\"latchmail.test\", \"example.test\"]

{sections}",
        key = file(state, "latchmail.key"),
        socket = file(state, "latchmail.sock"),
        grants = list(&GRANTABLE),
        scopes = list(&Scope::ALL.map(Scope::name)),
        cache = file(state, "cache"),
        url = toml_string(&url),
        mailserver = file(mail, "mailserver/mailserver.db"),
    );
    if let Some(servers) = servers {
        text = format!(
            "{text}
[imap]
address = \"{imap}\"
doveadm = \"{doveadm}\"
doveadm_key_file = {key}

[sieve]
address = \"{sieve}\"

[events]
listen = \"{notices}\"
url_file = {notices_url}

[smtp]
address = \"{submission}\"
",
            imap = servers.imap,
            doveadm = servers.doveadm,
            sieve = servers.sieve,
            key = toml_string(&servers.doveadm_key.to_string_lossy()),
            notices = servers.notices,
            notices_url = toml_string(&servers.notices_url.to_string_lossy()),
            submission = servers.submission,
        );
    }
    text
}

/// Adds the listen address of the service to the configuration `text`. The operator's commands read
/// the new text.
pub(crate) fn with_listen(listen: SocketAddr, text: &str) -> String {
    format!("# Written by `latchmail dev` at every start.\nlisten = \"{listen}\"\n{text}")
}

/// Returns a TOML basic string with the given value. TOML accepts the escape sequences of JSON
/// (TOML 1.0, "String").
pub(crate) fn toml_string(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use latchmail_core::config::Config;

    use super::*;

    #[test]
    fn the_configuration_is_valid_and_environment_variables_override_it() {
        let servers = MailServers {
            imap: SocketAddr::from(([127, 0, 0, 1], 1143)),
            submission: SocketAddr::from(([127, 0, 0, 1], 1587)),
            doveadm: SocketAddr::from(([127, 0, 0, 1], 1080)),
            sieve: SocketAddr::from(([127, 0, 0, 1], 4190)),
            doveadm_key: "/k \"k\"".into(),
            notices: SocketAddr::from(([127, 0, 0, 1], 1081)),
            notices_url: "/u".into(),
        };
        let state = Path::new("/tmp/a \"b\" \\c");
        let text = to_toml(
            state,
            Path::new("/tmp/m"),
            Some(Path::new("/m")),
            None,
            Some(&servers),
        );
        let environment = HashMap::from([("LATCHMAIL_LIMITS__MAIL".into(), "7".into())]);
        let config = Config::parse(&text, "test", environment).unwrap();
        assert_eq!(config.key_file, state.join("latchmail.key"));
        assert_eq!(config.imap.address, "127.0.0.1:1143");
        assert_eq!(config.imap.doveadm, "127.0.0.1:1080");
        assert_eq!(config.imap.doveadm_key_file, Path::new("/k \"k\""));
        assert_eq!(config.sieve.address, "127.0.0.1:4190");
        assert_eq!(config.events.listen, Some(servers.notices));
        assert_eq!(config.smtp.address, "127.0.0.1:1587");
        assert_eq!(config.registration.domains[0], "latchmail.test");
        assert_eq!(
            config.modules["mail"].grants,
            [
                "caller",
                "mailbox",
                "outbox",
                "compose",
                "drafts",
                "deliveries",
                "filters"
            ]
        );
        assert_eq!(config.limits.mail, 7);
        assert_eq!(config.limits.search, 20);
    }

    #[test]
    fn the_stored_configuration_contains_the_listen_address() {
        let folder = Path::new("/s");
        let text = to_toml(
            folder,
            folder,
            Some(folder),
            Some("sqlite:/elsewhere.db"),
            None,
        );
        let stored = with_listen(SocketAddr::from(([127, 0, 0, 1], 8123)), &text);
        let config = Config::parse(&stored, "test", HashMap::new()).unwrap();
        assert_eq!(config.base_url(), "http://127.0.0.1:8123");
        assert_eq!(config.database().url, "sqlite:/elsewhere.db");
    }

    #[test]
    fn a_postgres_url_is_used_unchanged() {
        let text = to_toml(
            Path::new("/s"),
            Path::new("/m"),
            None,
            Some("postgres://localhost/d"),
            None,
        );
        let config = Config::parse(&text, "test", HashMap::new()).unwrap();
        assert_eq!(config.database().url, "postgres://localhost/d");
    }
}
