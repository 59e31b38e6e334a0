//! Adds missing domains to the names of a table, and follows aliases whose target is another alias.
//! Does not look up accounts.

use std::collections::{HashMap, HashSet};

use latchmail_core::address;
use latchmail_core::config::Config;
use latchmail_net::dns::DomainName;

use crate::adoption::PlatformDomains;
use crate::postfix_table::{Entry, Format, Table, Target};

/// Maximum number of aliases between an address and its target. Postfix allows 1000
/// (`virtual_alias_recursion_limit`).
const MAX_STEPS: usize = 100;

/// The domains that complete names without a domain: one for the keys of an alias table, and one
/// for its targets.
pub(super) struct Names {
    keys: Option<String>,
    targets: Option<String>,
}

impl Names {
    /// Uses `domain`, the domain that the operator gave, for keys and targets. If `domain` is
    /// `None`, the first registration domain completes keys, and
    /// `sign_in.mailserver.default_domain` completes targets, because a target without a domain is
    /// a log-in name.
    pub(super) fn new(config: &Config, domain: Option<String>) -> Self {
        let first = config.registration.domains.first();
        let keys = domain.clone().or_else(|| first.cloned());
        let default = &config.sign_in.mailserver.default_domain;
        let default = (!default.is_empty()).then(|| default.clone());
        Self {
            targets: domain.or(default).or_else(|| keys.clone()),
            keys,
        }
    }
}

/// Returns the canonical form of an address. If `name` has no domain, adds `domain`. Returns `None`
/// if the result is not an address.
fn complete(name: &str, domain: Option<&str>) -> Option<String> {
    let (local, domain) = match name.rsplit_once('@') {
        Some((local, domain)) => (local, domain),
        None => (name, domain?),
    };
    let domain = address::fold_domain(domain)?;
    address::fold(&format!("{local}@{domain}"))
}

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The address, or the key of the line if the key is not an address.
    pub(super) name: String,
    /// The address, or the reason why the line cannot be imported.
    pub(super) address: Result<String, String>,
}

/// The aliases of a table.
pub(super) struct Aliases {
    names: Names,
    by_address: HashMap<String, Entry>,
}

/// The account address to which an alias delivers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// The alias delivers to its own address.
    Itself,
    /// The last target.
    Address(String),
}

impl Aliases {
    /// Reads the entries of a table. Returns the aliases, and all lines in the order of the file.
    /// As in Postfix, the first of several entries with the same key applies.
    pub(super) fn new(table: Table, names: Names, platform: &PlatformDomains) -> (Self, Vec<Row>) {
        let format = table.format;
        let domains: HashSet<String> = table.entries.iter().flatten().filter_map(domain).collect();
        let mut aliases = Self {
            names,
            by_address: HashMap::new(),
        };
        let mut rows = Vec::with_capacity(table.entries.len());
        for entry in table.entries {
            let row = match entry {
                Ok(entry) => {
                    let is_domain = |name: &str| {
                        format == Format::Virtual && is_domain(name, &domains, platform)
                    };
                    aliases.add(entry, is_domain)
                }
                Err(invalid) if invalid.key.is_empty() => Row {
                    name: format!("line {}", invalid.line),
                    address: Err(format!("invalid syntax: {}", invalid.reason)),
                },
                Err(invalid) => Row {
                    name: invalid.key,
                    address: Err(format!(
                        "invalid syntax in line {}: {}",
                        invalid.line, invalid.reason
                    )),
                },
            };
            rows.push(row);
        }
        (aliases, rows)
    }

    fn add(&mut self, entry: Entry, is_domain: impl Fn(&str) -> bool) -> Row {
        let failed = |reason: String| Row {
            name: entry.key.clone(),
            address: Err(reason),
        };
        let key = entry.key.as_str();
        if key.starts_with('@') {
            return failed("is a catch-all for a domain".into());
        }
        if key.starts_with('/') {
            return failed("is a regular expression".into());
        }
        if !key.contains('@') {
            if is_domain(key) {
                return failed("is a domain".into());
            }
            if self.names.keys.is_none() {
                return failed("has no domain; --domain adds one".into());
            }
        }
        let Some(address) = complete(key, self.names.keys.as_deref()) else {
            return failed(format!("is not an address (line {})", entry.line));
        };
        if let Some(first) = self.by_address.get(&address) {
            return failed(format!(
                "is a duplicate in line {} of line {}",
                entry.line, first.line
            ));
        }
        self.by_address.insert(address.clone(), entry);
        Row {
            name: address.clone(),
            address: Ok(address),
        }
    }

    /// Follows the aliases from `address` to the last target, and returns this target. Returns the
    /// reason if an alias does not have exactly one address as its target.
    pub(super) fn resolve(&self, address: &str) -> Result<Resolved, String> {
        let mut current = address.to_owned();
        for _ in 0..MAX_STEPS {
            let subject = |reason: &str| {
                if current == address {
                    reason.to_owned()
                } else {
                    format!("its target {current} {reason}")
                }
            };
            let Some(entry) = self.by_address.get(&current) else {
                return Ok(Resolved::Address(current));
            };
            let target = match entry.targets.as_slice() {
                [Target::Address(target)] => target,
                [Target::Program] => return Err(subject("runs a program")),
                [Target::File] => return Err(subject("delivers to a file")),
                [Target::Include] => return Err(subject("includes a file")),
                _ => return Err(subject("has several targets")),
            };
            let keys = self.names.keys.as_deref();
            let next = complete(target, keys).filter(|next| self.by_address.contains_key(next));
            let last = complete(target, self.names.targets.as_deref());
            if next.as_ref().or(last.as_ref()) == Some(&current) {
                return Ok(if current == address {
                    Resolved::Itself
                } else {
                    Resolved::Address(current)
                });
            }
            match (next, last) {
                (Some(next), _) => current = next,
                (None, Some(last)) => return Ok(Resolved::Address(last)),
                (None, None) => {
                    return Err(subject(&format!(
                        "has the target `{target}`, which is not an address"
                    )));
                }
            }
        }
        Err(format!(
            "has a loop, or more than {MAX_STEPS} aliases before its target"
        ))
    }
}

/// Returns the domain of an entry's key.
fn domain(entry: &Entry) -> Option<String> {
    let (_, domain) = entry.key.rsplit_once('@')?;
    address::fold_domain(domain)
}

/// Returns `true` if a key without `@` is a domain. virtual(5) has such entries for virtual alias
/// domains. A name can contain dots too, so the domain must be known or have a public suffix.
fn is_domain(name: &str, domains: &HashSet<String>, platform: &PlatformDomains) -> bool {
    let folded = address::fold_domain(name);
    folded.is_some_and(|folded| platform.contains(&folded) || domains.contains(&folded))
        || DomainName::parse(name).is_ok_and(|name| name.has_known_suffix())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aliases(settings: &str, domain: Option<&str>, text: &str) -> (Aliases, Vec<Row>) {
        let settings = format!("registration.domains = ['example.org']\n{settings}");
        let config = Config::parse(&settings, "test", HashMap::new()).unwrap();
        let names = Names::new(&config, domain.map(Into::into));
        let platform = PlatformDomains::from(["example.org".to_owned()]);
        Aliases::new(Table::parse(text), names, &platform)
    }

    fn resolved(text: &str, address: &str) -> Result<Resolved, String> {
        aliases("", None, text).0.resolve(address)
    }

    fn address(address: &str) -> Resolved {
        Resolved::Address(address.into())
    }

    #[test]
    fn keys_are_completed_and_folded() {
        let text = "Sales@Example.ORG x\ninfo x\njohn.doe x\n\"a\"@bücher.example x\n";
        let (_, rows) = aliases("", None, text);
        let addresses: Vec<String> = rows.into_iter().map(|row| row.address.unwrap()).collect();
        assert_eq!(
            addresses,
            [
                "sales@example.org",
                "info@example.org",
                "john.doe@example.org",
                "a@xn--bcher-kva.example"
            ]
        );
        let (_, rows) = aliases("", Some("example.net"), "info x\n");
        assert_eq!(rows[0].name, "info@example.net");
    }

    #[test]
    fn a_line_that_is_no_alias_has_a_reason() {
        let text = "@example.org x\nexample.org x\nother.test x\na@other.test x\nshop.example.com x\n/^a/ x\na b\na@example.org y\nö x\nz@example.org\n x\n";
        let (_, rows) = aliases("", None, &format!("{text}z@example.org\n"));
        let reasons: Vec<(String, String)> = rows
            .into_iter()
            .filter_map(|row| Some((row.name, row.address.err()?)))
            .collect();
        let expected = [
            ("@example.org", "is a catch-all for a domain"),
            ("example.org", "is a domain"),
            ("other.test", "is a domain"),
            ("shop.example.com", "is a domain"),
            ("/^a/", "is a regular expression"),
            ("a@example.org", "is a duplicate in line 8 of line 7"),
            ("ö", "is not an address (line 9)"),
            (
                "z@example.org",
                "invalid syntax in line 12: there is no target",
            ),
        ];
        let expected = expected.map(|(name, reason)| (name.to_owned(), reason.to_owned()));
        assert_eq!(reasons, expected);
    }

    #[test]
    fn aliases_of_aliases_are_followed() {
        let text = "a: b\nb: C@example.org\nc: ada\nd: ada@example.net\n";
        assert_eq!(
            resolved(text, "a@example.org"),
            Ok(address("ada@example.org"))
        );
        assert_eq!(
            resolved(text, "d@example.org"),
            Ok(address("ada@example.net"))
        );
    }

    #[test]
    fn a_target_without_a_domain_is_a_log_in_name() {
        let text = "a: b\nb: ada\n";
        let settings = "sign_in.mailserver.default_domain = 'example.net'";
        let (with_default, _) = aliases(settings, None, text);
        assert_eq!(
            with_default.resolve("a@example.org"),
            Ok(address("ada@example.net"))
        );
        let (with_option, _) = aliases(settings, Some("example.org"), text);
        assert_eq!(
            with_option.resolve("a@example.org"),
            Ok(address("ada@example.org"))
        );
    }

    #[test]
    fn an_entry_for_its_own_address_is_recognized() {
        let text = "ada@example.org Ada\nbob@example.org bob@example.org\ninfo@example.org ada\n";
        for address in ["ada@example.org", "bob@example.org"] {
            assert_eq!(resolved(text, address), Ok(Resolved::Itself));
        }
        assert_eq!(
            resolved(text, "info@example.org"),
            Ok(address("ada@example.org"))
        );
        let text = "ada: ada\n";
        let settings = "sign_in.mailserver.default_domain = 'example.net'";
        let (aliases, _) = aliases(settings, None, text);
        assert_eq!(aliases.resolve("ada@example.org"), Ok(Resolved::Itself));
    }

    #[test]
    fn other_targets_have_a_reason() {
        let text =
            "a: x, y\nb: |/bin/x\nc: /var/x\nd: :include:/etc/x\ne: a\nf: \"x y\"\ng: h\nh: g\n";
        for (name, reason) in [
            ("a", "has several targets"),
            ("b", "runs a program"),
            ("c", "delivers to a file"),
            ("d", "includes a file"),
            ("e", "its target a@example.org has several targets"),
            ("f", "has the target `x y`, which is not an address"),
            (
                "g",
                "has a loop, or more than 100 aliases before its target",
            ),
        ] {
            let result = resolved(text, &format!("{name}@example.org"));
            assert_eq!(result, Err(reason.into()), "{name}");
        }
    }

    #[test]
    fn a_name_needs_a_domain() {
        let config = Config::parse("", "test", HashMap::new()).unwrap();
        let names = Names::new(&config, None);
        let platform = PlatformDomains::from([]);
        let (_, rows) = Aliases::new(Table::parse("info x\n"), names, &platform);
        let reason = "has no domain; --domain adds one".to_owned();
        assert_eq!(rows[0].address, Err(reason));
    }
}
