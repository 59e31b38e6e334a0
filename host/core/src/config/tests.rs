//! Tests of the whole configuration: forms of values, defaults, and the environment.

use std::collections::HashMap;
use std::time::Duration;

use super::*;

fn parse(text: &str, environment: &[(&str, &str)]) -> Result<Config, StartError> {
    let environment: HashMap<String, String> = environment
        .iter()
        .map(|(k, v)| ((*k).into(), (*v).into()))
        .collect();
    Config::parse(text, "test", environment)
}

#[test]
fn the_attached_settings_are_overridden_by_the_file() {
    let attached = "[smtp]\naddress = '127.0.0.1:25'\nstarttls = true\n";
    let text = "smtp.address = '127.0.0.1:587'";
    let config = Config::parse_all(attached, text, "test", HashMap::new()).unwrap();
    assert_eq!(config.smtp.address, "127.0.0.1:587");
    assert!(config.smtp.starttls);
}

#[test]
fn domains_are_compared_as_the_dns_compares_them() {
    let read = |text: &str| parse(text, &[]);
    let config = read("registration.domains = ['Bücher.example.', ' b.example']").unwrap();
    let folded = ["xn--bcher-kva.example", "b.example"];
    assert_eq!(config.registration.domains, folded);
    assert_eq!(config.mail_host(), "mail.xn--bcher-kva.example");
    for text in [
        "registration.domains = ['a..example']",
        "registration.domains = ['ada@b.example']",
        "registration.domains = ['']",
        "dns.timeout = 6.1",
    ] {
        read(text).unwrap_err();
    }
}

#[test]
fn the_services_addresses_are_origins_as_browsers_write_them() {
    for (written, origin) in [
        ("https://Mail.Example.com:443/", "https://mail.example.com"),
        (
            "https://mail.example.com:8443",
            "https://mail.example.com:8443",
        ),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ] {
        let config = parse(&format!("base_url = '{written}'"), &[]).unwrap();
        assert_eq!(config.base_url(), origin);
    }
    for other in [
        "mail.example.com",
        "ftp://mail.example.com",
        "https://mail.example.com/realm",
        "https://user@mail.example.com",
        "https://mail.example.com?x",
        "https://",
    ] {
        for key in ["base_url", "auth_url"] {
            let refused = parse(&format!("{key} = '{other}'"), &[]).unwrap_err();
            assert!(refused.to_string().contains(other), "{refused}");
        }
    }
}

#[test]
fn an_empty_configuration_has_the_documented_limits() {
    let config = parse("", &[]).unwrap();
    assert_eq!(config.limits.mail, 60);
    assert_eq!(config.base_url(), "http://127.0.0.1:8080");
    assert_eq!(config.auth_url(), config.base_url());
}

#[test]
fn the_environment_goes_over_the_file() {
    let config = parse(
        "base_url = 'https://a.example/'\n[limits]\nmail = 7\n[modules.mail]\nsource = 'm.wasm'",
        &[
            ("LATCHMAIL_LIMITS__MAIL", "9"),
            ("LATCHMAIL_LISTEN", "127.0.0.1:1"),
            ("LATCHMAIL_REGISTRATION__DOMAINS", "A.example,b.example"),
            ("LATCHMAIL_STATE", "elsewhere"),
            ("LATCHMAIL_CONFIG", "elsewhere/latchmail.toml"),
            ("LATCHMAIL_MODULES__MAIL__DEADLINE", "1.5"),
            ("LATCHMAIL_MODULES__MAIL__GRANTS", "caller,mailbox"),
            ("LATCHMAIL_MODULES__MAIL__HOSTS", "a.example,10.0.0.0/8"),
            ("LATCHMAIL_DKIM__MILTER", "true"),
            ("LATCHMAIL_DKIM__KEYS__MAIN__DOMAIN", "a.example"),
            ("LATCHMAIL_DKIM__KEYS__MAIN__SELECTOR", "2026"),
            ("LATCHMAIL_DKIM__KEYS__MAIN__KEY_FILE", "/k.pem"),
            (
                "LATCHMAIL_OAUTH__INTROSPECTION__URL",
                "https://id.example/i",
            ),
            ("LATCHMAIL_OAUTH__INTROSPECTION__AUDIENCE", "a,b"),
            ("LATCHMAIL_OAUTH__INTROSPECTION__TIMEOUT", "1.5"),
        ],
    )
    .unwrap();
    assert_eq!(config.limits.mail, 9);
    assert_eq!(config.listen.tcp().unwrap().port(), 1);
    assert_eq!(config.base_url(), "https://a.example");
    assert_eq!(config.registration.domains, ["a.example", "b.example"]);
    assert_eq!(config.modules["mail"].deadline, Duration::from_millis(1500));
    assert_eq!(config.modules["mail"].grants, ["caller", "mailbox"]);
    assert_eq!(config.modules["mail"].hosts, ["a.example", "10.0.0.0/8"]);
    assert!(config.dkim.milter && config.database().with_milter);
    assert_eq!(config.dkim.keys["main"].domain, "a.example");
    assert_eq!(config.dkim.keys["main"].selector, "2026");
    let introspection = config.oauth.introspection.unwrap();
    assert_eq!(introspection.url, "https://id.example/i");
    assert_eq!(introspection.audience, ["a", "b"]);
    assert_eq!(introspection.timeout, Duration::from_millis(1500));
    assert_eq!(introspection.username_claim, "username");
}

#[test]
fn every_list_can_be_set_in_the_environment() {
    let lists = [
        "CORS_ORIGINS",
        "HTTP__TRUSTED_PROXIES",
        "INBOUND__LIST_SERVERS",
        "OAUTH__CLIENT_HOSTS",
        "OAUTH__INTROSPECTION__AUDIENCE",
        "REGISTRATION__DOMAINS",
        "MODULES__MAIL__GRANTS",
        "MODULES__MAIL__HOSTS",
        "MODULES__MAIL__PATHS",
        "NEW_MODULES__GRANTS",
        "NEW_MODULES__HOSTS",
        "NEW_MODULES__PATHS",
    ];
    let text = |list| match list {
        "HTTP__TRUSTED_PROXIES" => "192.0.2.1, 10.0.0.0/8",
        _ => "a.example, 10",
    };
    let written = lists.map(|list| (format!("LATCHMAIL_{list}"), text(list)));
    let environment: Vec<_> = written.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    let config = parse("", &environment).unwrap();
    let module = &config.modules["mail"];
    let new = config.new_modules.as_ref().unwrap();
    let introspection = config.oauth.introspection.as_ref().unwrap();
    for list in [
        &config.cors_origins,
        &config.inbound.list_servers,
        &config.oauth.client_hosts,
        &introspection.audience,
        &config.registration.domains,
        &module.grants,
        &module.hosts,
        &module.paths,
        &new.grants,
        &new.hosts,
        &new.paths,
    ] {
        assert_eq!(list, &["a.example", "10"]);
    }
    assert_eq!(config.http.trusted_proxies, ["192.0.2.1", "10.0.0.0/8"]);
}

#[test]
fn text_in_the_environment_is_kept_as_it_is_written() {
    let config = parse("", &[("LATCHMAIL_MODULES__MAIL__CONFIG__PIN", "007")]).unwrap();
    assert_eq!(config.modules["mail"].config.0["pin"], "007");
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    let error = parse("[limits]\nmial = 7", &[]).unwrap_err().to_string();
    assert!(error.contains("mial"), "{error}");
    let error = parse("", &[("LATCHMAIL_LISTN", "x")])
        .unwrap_err()
        .to_string();
    assert!(error.contains("listn"), "{error}");
}

#[test]
fn debug_shows_no_secret() {
    let config = parse(
        "database.url = 'postgres://u:hush@localhost/d'\n[modules.mail.config]\nkey = 'hush'",
        &[],
    )
    .unwrap();
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn the_agents_module_gets_settings_of_the_service_unless_it_has_its_own() {
    let text =
        "service_name = 'Post'\nmcp.send_tool = true\n[modules.mcp.config]\nservice_name = 'Own'";
    let modules = parse(text, &[]).unwrap().modules_with_service_settings();
    let settings = &modules["mcp"].config.0;
    assert_eq!(settings["service_name"], "Own");
    assert_eq!(settings["origins"], "http://127.0.0.1:8080");
    assert_eq!(settings["send_tool"], "true");
}

#[test]
fn an_optional_module_needs_no_section() {
    let policy = |text: &str| {
        let config = parse(text, &[]).unwrap();
        assert!(!config.modules_with_service_settings().contains_key("jmap"));
        config.optional_modules().remove("jmap").unwrap()
    };
    let usual = policy("base_url = 'https://mail.example'");
    assert!(usual.grants.contains(&"queries".to_owned()));
    assert_eq!(usual.paths, ["/jmap/", "/.well-known/jmap"]);
    assert_eq!(usual.config.0["base_url"], "https://mail.example");
    let text = "[modules.jmap]\nmemory = 128\ngrants = ['caller']";
    let config = parse(text, &[]).unwrap();
    let own = &config.modules_with_service_settings()["jmap"];
    assert_eq!(
        (own.memory, &own.grants[..]),
        (128, &["caller".to_owned()][..])
    );
    assert_eq!(own.paths, usual.paths);
}

#[test]
fn a_unix_socket_needs_a_base_url() {
    let parse = |text: &str| Config::parse(text, "test", HashMap::new());
    let error = parse("listen = 'unix:/run/http.sock'").unwrap_err();
    assert!(
        error.to_string().contains("`base_url` must be set"),
        "{error}"
    );
    let config = parse("listen = 'unix:/run/http.sock'\nbase_url = 'https://a.example'").unwrap();
    assert_eq!(config.base_url(), "https://a.example");
    let error = parse("listen = '8080'").unwrap_err().to_string();
    assert!(
        error.contains("`8080`") && error.contains("listen"),
        "{error}"
    );
}

#[test]
fn the_proxy_protocol_needs_a_trusted_proxy() {
    let parse = |text: &str| Config::parse(text, "test", HashMap::new());
    let error = parse("http.proxy_protocol = true").unwrap_err().to_string();
    assert!(error.contains("`http.trusted_proxies` is empty"), "{error}");
    assert!(parse("http.proxy_protocol = true\nhttp.trusted_proxies = ['10.0.0.1']").is_ok());
    let unix = "listen = 'unix:/run/http.sock'\nbase_url = 'https://a.example'\nhttp.proxy_protocol = true";
    assert!(parse(unix).is_ok());
}

#[test]
fn tls_needs_a_certificate_and_its_key() {
    let parse = |text: &str| Config::parse(text, "test", HashMap::new());
    for text in ["tls.certificate = 'a.pem'", "tls.key = 'a.pem'"] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains("must be set together"), "{error}");
    }
    let config = parse("tls.certificate = 'a.pem'\ntls.key = 'b.pem'").unwrap();
    assert_eq!(config.base_url(), "https://127.0.0.1:8080");
    assert!(config.serves_tls());
}

#[test]
fn redirects_need_a_url_with_tls() {
    let parse = |text: &str| Config::parse(text, "test", HashMap::new());
    let redirect = "http.redirect_listen = '0.0.0.0:80'";
    let error = parse(redirect).unwrap_err().to_string();
    assert!(
        error.contains("https") && error.contains("`base_url`"),
        "{error}"
    );
    assert!(parse(&format!("base_url = 'https://a.example'\n{redirect}")).is_ok());
    assert!(parse(&format!("tls.certificate = 'a'\ntls.key = 'b'\n{redirect}")).is_ok());
}

#[test]
fn certificates_are_ordered_only_if_the_terms_are_accepted() {
    let parse = |text: &str| Config::parse(text, "test", HashMap::new());
    let acme = "acme.domains = ['mail-api.example.com', 'example.com']\n";
    let accepted = format!("{acme}acme.accept_terms = true\n");
    for (text, reason) in [
        (acme.to_owned(), "`acme.accept_terms` is false"),
        (
            accepted.replace("'example", "'*.example"),
            "`*.example.com`",
        ),
        (
            format!("{accepted}acme.contact = ['admin@example.com']"),
            "`mailto:`",
        ),
        (
            format!("{accepted}acme.directory = 'http://ca'"),
            "an https URL",
        ),
        (
            format!("{accepted}tls.certificate = 'a'\ntls.key = 'b'"),
            "exclude each other",
        ),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let config = parse(&format!(
        "{accepted}listen = '0.0.0.0:443'\nkey_file = '/data/key'"
    ))
    .unwrap();
    assert_eq!(config.base_url(), "https://mail-api.example.com");
    assert_eq!(config.acme_folder(), std::path::Path::new("/data/acme"));
    let config = parse(&format!("{accepted}listen = '0.0.0.0:8443'")).unwrap();
    assert_eq!(config.base_url(), "https://mail-api.example.com:8443");
}

#[test]
fn other_machines_reach_the_operators_page_only_with_tls() {
    let parse = |text: &str| Config::parse(text, "test", HashMap::new());
    for address in ["0.0.0.0:8081", "192.0.2.1:8081", "[2001:db8::1]:8081"] {
        let listen = format!("admin.listen = '{address}'");
        let error = parse(&listen).unwrap_err().to_string();
        assert!(error.contains("`admin.listen`"), "{error}");
        assert!(parse(&format!("{listen}\ntls.certificate = 'a'\ntls.key = 'b'")).is_ok());
    }
    for address in ["127.0.0.1:8081", "[::1]:8081"] {
        assert!(parse(&format!("admin.listen = '{address}'")).is_ok());
    }
    assert_eq!(parse("").unwrap().admin.listen, None);
}
