//! `latchmail doctor`, run as an operator types it, with running, stopped and missing mail servers.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::time::SystemTime;

use latchmail_tests::dkim::{PKCS8, dns_record, key_file};
use latchmail_tests::process::free_address;
use latchmail_tests::{Nameserver, ProgramOutput, Service, Setup, program};
use serde_json::Value;
use tokio::process::Command;

const MAIL_HOST: &str = "mail.first.test";

/// Starts a DNS server with the records of a domain, except the DKIM record.
async fn dns_with_records(domain: &str) -> Nameserver {
    let dns = Nameserver::start().await;
    // The name has both records. `txt` replaces earlier records of the name.
    dns.txt(domain, &[&format!("v=spf1 include:{MAIL_HOST} ~all")]);
    dns.also_mx(domain, MAIL_HOST);
    dns.txt(&format!("_dmarc.{domain}"), &["v=DMARC1; p=quarantine"]);
    dns
}

fn setup(dns: &Nameserver, settings: &str) -> Setup {
    Setup::default().with(&format!(
        "registration.domains = ['first.test']\ndns.server = '{}'\n{settings}",
        dns.address
    ))
}

async fn doctor(service: &Service) -> ProgramOutput {
    service.operator_with_all_settings(&["doctor"], &[]).await
}

/// Returns the lines of a check, for example `ok` for `ok  imap: …`.
fn statuses<'a>(output: &'a ProgramOutput, check: &str) -> Vec<&'a str> {
    let lines = output.stdout.lines();
    lines
        .filter_map(|line| line.split_once("  "))
        .filter(|(_, rest)| rest.trim_start().starts_with(&format!("{check}: ")))
        .map(|(status, _)| status)
        .collect()
}

/// Returns the names of the failed checks. Omits `tls`, because another mail server of this machine
/// can listen on the ports for mail clients.
fn failed_checks(output: &ProgramOutput) -> Vec<&str> {
    let lines = output.stdout.lines();
    lines
        .filter_map(|line| line.strip_prefix("failed   ")?.split_once(": "))
        .map(|(check, _)| check)
        .filter(|check| *check != "tls")
        .collect()
}

/// Returns the files below a folder, with their sizes and times of modification. Omits the time of
/// files `-shm`, because each reader of a database writes its position to this file.
fn files(folder: &Path) -> BTreeMap<String, (u64, Option<SystemTime>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let metadata = entry.metadata().unwrap();
        let path = entry.path();
        if metadata.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with("service.toml") {
            let name = path.display().to_string();
            let modified = (!name.ends_with("-shm")).then(|| metadata.modified().unwrap());
            found.insert(name, (metadata.len(), modified));
        }
    }
    found
}

#[tokio::test]
async fn all_checks_succeed_while_the_service_runs_and_while_it_is_stopped() {
    let dns = dns_with_records("first.test").await;
    let mut service = setup(&dns, "").with_mail().start().await;
    for _ in 0..2 {
        let output = doctor(&service).await;
        assert!(failed_checks(&output).is_empty(), "{output:?}");
        let is_failed = output.stdout.contains("failed   tls: ");
        assert_eq!(output.status, i32::from(is_failed), "{output:?}");
        for check in [
            "configuration",
            "key",
            "database",
            "permissions",
            "imap",
            "doveadm",
            "notices",
            "smtp",
            "sieve",
            "mx",
            "spf",
            "dmarc",
        ] {
            let found = statuses(&output, check);
            let is_ok = found.iter().all(|status| *status == "ok");
            assert!(!found.is_empty() && is_ok, "{check} in {}", output.stdout);
        }
        assert_eq!(statuses(&output, "dkim"), ["warning"], "{}", output.stdout);
        for check in [
            "tls",
            "index",
            "clock",
            "inotify",
            "descriptors",
            "versions",
        ] {
            assert!(!statuses(&output, check).is_empty(), "{}", output.stdout);
        }
        let imap = format!("imap: Dovecot at {}, TLS not used\n", service.mail().imap);
        assert!(output.stdout.contains(&imap), "{}", output.stdout);
        service.stop().await;
    }
}

#[tokio::test]
async fn a_check_of_a_stopped_service_changes_no_file() {
    let dns = dns_with_records("first.test").await;
    let mut service = setup(&dns, "").start().await;
    service.stop().await;
    let before = files(&service.state);
    let output = doctor(&service).await;
    assert_eq!(statuses(&output, "database"), ["ok"], "{}", output.stdout);
    assert_eq!(files(&service.state), before);
}

#[tokio::test]
async fn a_stopped_imap_server_fails_the_checks_of_dovecot() {
    let dns = dns_with_records("first.test").await;
    let mut service = setup(&dns, "").with_own_mail().start().await;
    service.stack().stop_imap().await.unwrap();
    let output = doctor(&service).await;
    assert_eq!(output.status, 1, "{output:?}");
    assert_eq!(failed_checks(&output), ["imap", "doveadm", "sieve"]);
    let (failed, other): (Vec<&str>, Vec<&str>) = output
        .stdout
        .lines()
        .partition(|line| line.starts_with("failed"));
    assert!(failed[0].contains(". Remedy: start the IMAP server"));
    let (failed, checks) = (failed.len(), failed.len() + other.len());
    let summary = format!("latchmail: {failed} of {checks} checks failed\n");
    assert_eq!(output.stderr, summary);
}

#[tokio::test]
async fn each_json_line_is_an_object_with_the_four_fields() {
    let dns = dns_with_records("first.test").await;
    // No mail server listens at the configured addresses.
    let service = setup(&dns, "").start().await;
    let output = service
        .operator_with_all_settings(&["doctor", "--json"], &[])
        .await;
    assert_eq!(output.status, 1, "{output:?}");
    let mut failed = Vec::new();
    for line in output.stdout.lines() {
        let finding: Value = serde_json::from_str(line).unwrap();
        assert_eq!(finding.as_object().unwrap().len(), 4, "{line}");
        assert!(finding["detail"].is_string(), "{line}");
        match finding["status"].as_str().unwrap() {
            "ok" => assert!(finding["remedy"].is_null(), "{line}"),
            "warning" => assert!(finding["remedy"].is_string(), "{line}"),
            "failed" => failed.push(finding["check"].as_str().unwrap().to_owned()),
            _ => panic!("{line}"),
        }
    }
    // Another mail server of this machine can listen on the ports for mail clients.
    failed.retain(|check| check != "tls");
    assert_eq!(failed, ["imap", "smtp", "sieve"]);
}

#[tokio::test]
async fn a_configured_dkim_key_is_compared_with_the_published_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dkim.pem");
    let public_key = key_file(&file, PKCS8);
    let dns = dns_with_records("first.test").await;
    let settings = format!(
        "dkim.keys.main = {{ domain = 'first.test', selector = '2026a', key_file = '{}' }}",
        file.display()
    );
    let service = setup(&dns, &settings).start().await;
    let output = doctor(&service).await;
    assert_eq!(statuses(&output, "dkim"), ["warning"], "{}", output.stdout);
    let (name, text) = dns_record("first.test", "2026a", &public_key);
    let remedy = format!("publish the DKIM record `{text}` at {name}");
    assert!(output.stdout.contains(&remedy), "{}", output.stdout);

    let (start, end) = text.split_at(200);
    dns.txt(&name, &[start, end]);
    let output = doctor(&service).await;
    assert_eq!(statuses(&output, "dkim"), ["ok"], "{}", output.stdout);
}

#[tokio::test]
async fn a_key_file_that_other_users_can_read_fails_one_check() {
    let dns = dns_with_records("first.test").await;
    let service = setup(&dns, "").with_mail().start().await;
    let key = service.state.join("latchmail.key");
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let output = doctor(&service).await;
    assert_eq!(output.status, 1, "{output:?}");
    assert_eq!(statuses(&output, "key"), ["failed"], "{}", output.stdout);
    assert_eq!(statuses(&output, "imap"), ["ok"], "{}", output.stdout);
}

#[tokio::test]
async fn a_wrong_doveadm_key_fails_one_check() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("doveadm.key");
    std::fs::write(&key, "wrong key").unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let dns = dns_with_records("first.test").await;
    let settings = format!("imap.doveadm_key_file = '{}'", key.display());
    let service = setup(&dns, &settings).with_mail().start().await;
    let output = doctor(&service).await;
    assert_eq!(output.status, 1, "{output:?}");
    assert_eq!(failed_checks(&output), ["doveadm"], "{}", output.stdout);
    let rejected =
        "failed   doveadm: doveadm rejected the key in `imap.doveadm_key_file`. Remedy: ";
    assert!(output.stdout.contains(rejected), "{}", output.stdout);
}

#[tokio::test]
async fn a_url_of_notices_with_another_key_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notices.url");
    let address = free_address();
    let url = format!("http://{address}/notices/abcdefghijklmnopqrst");
    std::fs::write(&file, &url).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let dns = dns_with_records("first.test").await;
    let settings = format!(
        "events.listen = '{address}'\nevents.url_file = '{}'",
        file.display()
    );
    let service = setup(&dns, &settings).start().await;
    std::fs::write(&file, format!("{url}u")).unwrap();
    let output = doctor(&service).await;
    assert_eq!(statuses(&output, "notices"), ["warning"], "{output:?}");
    let rejected = format!("at the URL in {}: status 404", file.display());
    assert!(output.stdout.contains(&rejected), "{}", output.stdout);
    assert!(
        !output.stdout.contains("abcdefghijklmnopqrst"),
        "{output:?}"
    );
}

#[tokio::test]
async fn root_checks_the_folders_for_the_owner_of_the_key_file() {
    const SERVICE_USER: u32 = 1;
    let dns = dns_with_records("first.test").await;
    let mut service = setup(&dns, "").start().await;
    service.stop().await;
    let key = service.state.join("latchmail.key");
    chown(&key, Some(SERVICE_USER), None).unwrap();
    let output = doctor(&service).await;
    assert_eq!(statuses(&output, "key"), ["ok"], "{}", output.stdout);
    let state = service.state.display();
    let problem = format!("the socket folder {state} is not writable for the user {SERVICE_USER}");
    assert!(output.stdout.contains(&problem), "{}", output.stdout);
}

#[tokio::test]
async fn the_certificate_of_the_machine_itself_is_not_checked() {
    let dns = dns_with_records("first.test").await;
    let address = free_address();
    let settings = format!("imap.address = '{address}'\nimap.tls = true\nimap.timeout = 0.5");
    let service = setup(&dns, &settings).start().await;
    let output = doctor(&service).await;
    assert_eq!(statuses(&output, "imap"), ["failed"], "{output:?}");
    let checked = |line: &str| line.contains("tls: ") && line.contains(&address.to_string());
    assert!(!output.stdout.lines().any(checked), "{}", output.stdout);
}

#[tokio::test]
async fn without_a_valid_configuration_only_independent_checks_run() {
    let folder = tempfile::tempdir().unwrap();
    let invalid = folder.path().join("invalid.toml");
    std::fs::write(&invalid, "unknown_key = 1\n").unwrap();
    for file in [invalid, folder.path().join("missing.toml")] {
        let mut command = Command::new(program());
        command.env_clear().args(["doctor", "--config"]).arg(&file);
        let output = ProgramOutput::of(&mut command, "").await;
        assert_eq!(output.status, 1, "{output:?}");
        assert_eq!(statuses(&output, "configuration"), ["failed"], "{output:?}");
        assert_eq!(statuses(&output, "clock").len(), 1, "{output:?}");
        assert!(statuses(&output, "imap").is_empty(), "{output:?}");
    }
    let mut command = Command::new(program());
    command.env_clear().args(["doctor", "--unknown"]);
    assert_eq!(ProgramOutput::of(&mut command, "").await.status, 2);
}
