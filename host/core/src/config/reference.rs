//! Checks that `docs/configuration.md` has exactly the keys of the configuration types.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::{BUILT_IN, Config};

/// The sections that contain keys. The documentation has a table for each section. `<name>` is any
/// name.
const SECTIONS: [&str; 37] = [
    "log",
    "http",
    "tls",
    "acme",
    "database",
    "imap",
    "smtp",
    "sieve",
    "inbound",
    "index",
    "events",
    "export",
    "registration",
    "sign_in",
    "sign_in.domains.<name>",
    "sign_in.mailserver",
    "sign_in.oidc",
    "accounts",
    "audit",
    "dns",
    "dkim",
    "dkim.keys.<name>",
    "limits",
    "redis",
    "registry",
    "webhooks",
    "handlers",
    "oauth",
    "oauth.introspection",
    "grants",
    "mcp",
    "metrics",
    "telemetry",
    "modules.<name>",
    "admin",
    "scim",
    "plans.<name>",
];

/// Returns the keys of a section. They come from the error for an unknown key, because this error
/// lists all valid keys.
fn keys(section: &str) -> Vec<String> {
    let header = match section {
        "" => String::new(),
        section => format!("[{}]", section.replace("<name>", "name")),
    };
    let text = format!("{header}\nno_such_key = 1");
    let error = Config::parse(&text, "test", HashMap::new()).unwrap_err();
    let error = error.to_string();
    let (_, expected) = error.split_once("expected").unwrap();
    // The name of the section can follow the list of keys in the error, so it is cut off.
    let expected = expected.split(" for key ").next().unwrap();
    let quoted = expected.split('`').skip(1).step_by(2);
    let prefix = match section {
        "" => String::new(),
        section => format!("{section}."),
    };
    quoted.map(|key| format!("{prefix}{key}")).collect()
}

/// Returns the keys in the first column of all tables with the header `Key`. A key that starts with
/// a dot has the prefix of the preceding key.
fn documented(text: &str) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let mut in_table = false;
    let mut section = "";
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading;
        }
        in_table = line.starts_with("| Key |") || in_table && line.starts_with('|');
        let cell = line.split('|').nth(1).filter(|_| in_table);
        let mut before = String::new();
        for key in cell.unwrap_or_default().split('`').skip(1).step_by(2) {
            let key = match key.strip_prefix('.') {
                Some(last) => match before.rsplit_once('.') {
                    Some((prefix, _)) => format!("{prefix}.{last}"),
                    None => key.to_owned(),
                },
                None if section == "Modules" && !key.contains('.') => {
                    format!("modules.<name>.{key}")
                }
                None => key.to_owned(),
            };
            before.clone_from(&key);
            keys.insert(key);
        }
    }
    keys
}

#[test]
fn the_documentation_has_exactly_the_keys_of_the_configuration() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let mut documented = documented(&std::fs::read_to_string(file).unwrap());
    // References to other tables, and a setting of one module.
    for other in [
        "limits.*",
        "modules.<name>.*",
        "new_modules.*",
        "modules.credentials.config.jmap",
    ] {
        assert!(documented.remove(other), "{other} is not documented");
    }
    let mut configured = BTreeSet::new();
    for key in keys("") {
        let is_section = SECTIONS
            .iter()
            .any(|section| section.split('.').next() == Some(&key));
        if !is_section && key != "new_modules" {
            configured.insert(key);
        }
    }
    for section in SECTIONS {
        let nested = |key: &String| {
            SECTIONS
                .iter()
                .any(|other| *other == key || other.strip_suffix(".<name>") == Some(key))
        };
        configured.extend(keys(section).into_iter().filter(|key| !nested(key)));
    }
    let missing: Vec<_> = configured.difference(&documented).collect();
    let unknown: Vec<_> = documented.difference(&configured).collect();
    assert!(missing.is_empty(), "not documented: {missing:?}");
    assert!(unknown.is_empty(), "documented but unknown: {unknown:?}");
}

#[test]
fn the_file_to_start_from_has_the_settings_of_the_built_in_modules() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(file).unwrap();
    let sample = text.split("```toml\n").nth(1).unwrap();
    let sample = sample.split("```").next().unwrap();
    let config = Config::parse(sample, "test", HashMap::new()).unwrap();
    assert_eq!(config.modules.len(), BUILT_IN.len());
    for built_in in BUILT_IN {
        let module = &config.modules[built_in.name];
        assert_eq!(module.grants, built_in.grants);
        assert_eq!(module.paths, built_in.paths);
        assert!(
            module
                .source
                .as_ref()
                .unwrap()
                .ends_with(built_in.file_name())
        );
    }
}

/// The configuration file of the Debian package.
const PACKAGED: &str = include_str!("../../../../packaging/latchmail.toml");

#[test]
fn the_configuration_of_the_package_is_valid() {
    let config = Config::parse(PACKAGED, "packaging/latchmail.toml", HashMap::new()).unwrap();
    assert!(config.modules.is_empty());
    let files = [
        config.key_file,
        config.cache_dir,
        config.index.path,
        config.admin.socket,
    ];
    assert!(files.iter().all(|file| file.is_absolute()));
}

#[test]
fn the_manifest_for_kubernetes_names_no_network_that_is_trusted_by_default() {
    let manifest = include_str!("../../../../packaging/kubernetes/secret.yaml");
    let (_, text) = manifest.split_once("latchmail.toml: |\n").unwrap();
    let text: String = text.lines().flat_map(|line| [line.trim(), "\n"]).collect();
    let parsed = |text: &str| Config::parse(text, "secret.yaml", HashMap::new());
    let error = parsed(&text).unwrap_err().to_string();
    let expected = "`http.trusted_proxies` contains `NETWORK-OF-THE-INGRESS-CONTROLLER`";
    assert!(error.contains(expected), "{error}");
    parsed(&text.replace("NETWORK-OF-THE-INGRESS-CONTROLLER", "10.1.2.0/24")).unwrap();
}

#[test]
fn the_configuration_of_the_package_shows_every_key() {
    let is_setting = |line: &str| line.starts_with(|c: char| c == '[' || c.is_ascii_lowercase());
    let lines = || {
        let uncommented = PACKAGED
            .lines()
            .map(|line| line.strip_prefix('#').unwrap_or(line));
        uncommented.filter(|line| is_setting(line))
    };
    let defaults = Config::parse("", "", HashMap::new()).unwrap();
    // A configuration cannot have both `[tls]` and `[acme]`, so each of them is left out once.
    let shown = ["[tls]", "[acme]"].into_iter().flat_map(|left_out| {
        let mut section = "";
        let kept = lines().filter(|line| {
            if line.starts_with('[') {
                section = line;
            }
            section != left_out
        });
        let text: String = kept.flat_map(|line| [line, "\n"]).collect();
        // The setting `http.redirect_listen` is valid only with an https URL.
        let environment = [("LATCHMAIL_BASE_URL", "https://mail-api.example.com")];
        let environment = environment.map(|(key, value)| (key.into(), value.into()));
        let config = Config::parse(&text, "packaging/latchmail.toml", environment.into()).unwrap();
        config.changed_keys(&defaults)
    });
    let shown: Vec<_> = shown.collect();
    let is_shown = |key: &str| {
        // `<name>` is any name, which can contain dots.
        let (before, after) = key.split_once("<name>").unwrap_or((key, ""));
        let table = format!("{after}.");
        let is_key = |one: &&String| one.ends_with(after) || one.contains(&table);
        shown
            .iter()
            .filter(is_key)
            .any(|one| one.starts_with(before))
    };
    let mut missing = Vec::new();
    for section in SECTIONS.into_iter().chain([""]) {
        missing.extend(keys(section).into_iter().filter(|key| !is_shown(key)));
    }
    assert!(missing.is_empty(), "not shown: {missing:?}");
}
