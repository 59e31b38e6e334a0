//! `latchmail attach` and `latchmail detach` with a running Dovecot and Postfix that have their own
//! users.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use latchmail_accounts::routing::Routing;
use latchmail_accounts::service_credentials::ServiceCredentials;
use latchmail_core::caller::{Origin, Proof};
use latchmail_core::clock::Clock;
use latchmail_core::config::Config;
use latchmail_core::error::Kind;
use latchmail_core::keyring::Keyring;
use latchmail_directory::Directory;
use latchmail_directory::credentials::index_keys::ServiceUse;
use latchmail_directory::routes::domain_settings::DomainSettings;
use latchmail_mailserver::DovecotVersion;
use latchmail_tests::existing_server::{AttachedService, has_no_traces, login_name, password};
use latchmail_tests::{DOMAIN, ExistingServer, wait_until};
use secrecy::ExposeSecret as _;
use serde_json::json;
use tokio::time::sleep;

/// Signs in, and returns the subjects in the user's INBOX.
async fn subjects(service: &AttachedService, user: &str) -> Vec<String> {
    let token = service.sign_in(user).await;
    let path = "/api/v1/mail/folders/INBOX/messages";
    let listed = service.request("GET", path, &token, None).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let messages = listed.json["messages"].as_array().unwrap();
    let subject = |message: &serde_json::Value| message["subject"].as_str().unwrap().to_owned();
    messages.iter().map(subject).collect()
}

/// Checks that a delivery is an event of an open stream before the next check of the mailbox, which
/// is after 30 seconds.
async fn check_event_of_a_delivery(server: &ExistingServer, service: &AttachedService) {
    let token = service.sign_in("ann").await;
    let mut stream = service.events(&token).await;
    let address = format!("ann@{DOMAIN}");
    server.deliver("ann", &address, "an event").await;
    let event = tokio::time::timeout(Duration::from_secs(15), stream.next()).await;
    let event = event.expect("no event arrived");
    assert_eq!(event.kind, "message.created");
    assert_eq!(event.data["data"]["folder"], "INBOX");
}

/// Forwards the mail of a user of the mail server to another one. The mail server decides where
/// mail for other addresses of the domain goes.
async fn forward(server: &ExistingServer, from: &str, to: &str) {
    let config = Config::load(Some(&server.config())).unwrap();
    let directory = Directory::open_beside_service(&config.database())
        .await
        .unwrap();
    let account = directory.accounts.by_address(from).await.unwrap().unwrap();
    let routing = Routing::new(directory.clone(), config.sign_in.clone());
    let (now, operator) = (Clock::system().now(), Origin::operator());
    let changed = routing.set_forward_to(&account.id, Some(to), now, &operator);
    assert!(changed.await.unwrap());
    let settings = DomainSettings {
        catch_all: Some(from.to_owned()),
        separator: None,
    };
    let refused = routing.set_domain(DOMAIN, settings, now, &operator).await;
    assert_eq!(refused.unwrap_err().kind, Kind::Forbidden);
    directory.close().await;
}

/// Returns the app password with which the service reads a user's mailbox for the search index.
async fn index_password(server: &ExistingServer, address: &str) -> String {
    let config = Config::load(Some(&server.config())).unwrap();
    let directory = Directory::open_beside_service(&config.database())
        .await
        .unwrap();
    let account = directory.accounts.by_address(address).await.unwrap();
    let keys = Arc::new(Keyring::load(&config.key_file).unwrap());
    let credentials = ServiceCredentials::new(
        ServiceUse::Index,
        directory.credentials,
        keys,
        Clock::system(),
    );
    let credential = credentials.credential(&account.unwrap().id).await.unwrap();
    match credential.unwrap().proof {
        Proof::AppPassword(secret) => secret.expose_secret().to_owned(),
        Proof::AccessToken { .. } => panic!("the proof is an access token"),
    }
}

#[tokio::test]
async fn the_plan_changes_nothing() {
    let server = ExistingServer::start().await;
    let before = server.configuration().await;
    let output = server.attach(&["--plan"], "").await;
    assert_eq!(output.status, 0, "{output:?}");
    for expected in [
        "Dovecot 2.",
        "Postfix 3.",
        "passwd-file",
        "05-latchmail.conf",
        "virtual_alias_maps",
    ] {
        assert!(output.stdout.contains(expected), "{}", output.stdout);
    }
    assert_eq!(server.configuration().await, before);
    let refused = server.attach(&[], "").await;
    assert!(refused.stderr.contains("--yes"), "{refused:?}");
    assert_eq!(server.configuration().await, before);
    assert!(!server.config().with_file_name("latchmail.db").exists());
}

#[tokio::test]
async fn users_sign_in_with_existing_passwords_and_detach_restores_every_file() {
    let server = ExistingServer::start().await;
    server
        .deliver("ann", &format!("ann@{DOMAIN}"), "before")
        .await;
    let before = server.configuration().await;
    let test_user = format!("ann@{DOMAIN}");
    let arguments = ["--yes", "--test-user", &test_user];
    let output = server.attach(&arguments, &password("ann")).await;
    assert_eq!(output.status, 0, "{output:?}");
    assert_eq!(output.stdout.matches("verified: ").count(), 6, "{output:?}");
    let attached = server.configuration().await;
    for arguments in [&arguments[..], &["--yes"], &["--plan"], &[]] {
        let again = server.attach(arguments, &password("ann")).await;
        assert_eq!(again.status, 0, "{again:?}");
        assert!(again.stdout.contains("already attached"), "{again:?}");
        assert!(!again.stdout.contains("Changes"), "{again:?}");
    }
    assert_eq!(server.configuration().await, attached);
    for user in ["ann", "bob", "cleo"] {
        let existing = server.log_in(&login_name(user), &password(user)).await;
        assert!(existing.is_some(), "{user}");
    }

    let service = server.serve().await;
    assert_eq!(subjects(&service, "ann").await, ["before"]);
    server
        .deliver("cleo", &format!("cleo@{DOMAIN}"), "for cleo")
        .await;
    assert_eq!(subjects(&service, "cleo").await, ["for cleo"]);

    let token = service.sign_in("ann").await;
    let create = |path, body| service.request("POST", path, &token, Some(body));
    let alias = create(
        "/api/v1/aliases",
        json!({"name": "ann-alias", "domain": DOMAIN}),
    )
    .await;
    assert_eq!(alias.status, 201, "{alias:?}");
    server
        .deliver("ann", &format!("ann-alias@{DOMAIN}"), "for the alias")
        .await;
    let refused = create("/api/v1/aliases", json!({"name": "bob", "domain": DOMAIN})).await;
    assert_eq!(
        refused.status, 400,
        "the address of another user: {refused:?}"
    );
    // The copy for the other user leaves the message in the mailbox.
    forward(&server, &format!("ann@{DOMAIN}"), &format!("bob@{DOMAIN}")).await;
    server
        .deliver("ann", &format!("ann-alias@{DOMAIN}"), "for both")
        .await;
    wait_until("the copy arrives", async || {
        let found = subjects(&service, "bob").await;
        found.iter().any(|subject| subject == "for both")
    })
    .await;
    for from in ["ann-alias", "sales"] {
        let message = json!({
            "from": format!("{from}@{DOMAIN}"), "to": format!("bob@{DOMAIN}"), "subject": from, "text": "Hello"
        });
        let sent = create("/api/v1/mail/send", message).await;
        assert_eq!(sent.status, 200, "{from}: {sent:?}");
    }
    let made = create("/api/v1/app-passwords", json!({"label": "Phone"})).await;
    let app_password = made.json["password"].as_str().unwrap().to_owned();
    assert!(server.log_in(&test_user, &app_password).await.is_some());
    assert!(
        server
            .accepts_submission_of(&test_user, &app_password)
            .await
    );
    let index = index_password(&server, &test_user).await;
    assert!(server.log_in(&test_user, &index).await.is_some());
    assert!(!server.accepts_submission_of(&test_user, &index).await);

    drop(service);
    let output = server.detach().await;
    assert_eq!(output.status, 0, "{output:?}");
    assert_eq!(server.configuration().await, before);
    assert!(has_no_traces(server.config().parent().unwrap()));
    assert!(server.log_in(&test_user, &app_password).await.is_none());
    assert!(server.log_in(&test_user, &password("ann")).await.is_some());
}

#[tokio::test]
async fn dovecot_sends_notices_about_deliveries_to_the_service() {
    let server = ExistingServer::start().await;
    // An exporter of the operator continues to work.
    let format = match DovecotVersion::installed().unwrap() {
        DovecotVersion::V2_3 => "transport = log\n  format = json\n  format_args = time-rfc3339",
        DovecotVersion::V2_4 => "driver = log\n  format = json",
    };
    server.add_dovecot_settings(&format!(
        "event_exporter own {{\n  {format}\n}}\nmetric own {{\n  exporter = own\n  filter = event=mail_delivery_finished\n}}\n"
    ));
    let before = server.configuration().await;
    let output = server.attach(&["--yes"], "").await;
    assert_eq!(output.status, 0, "{output:?}");
    let verified = "verified: Dovecot sends notices about deliveries";
    assert!(output.stdout.contains(verified), "{output:?}");
    let settings = &server.configuration().await["doveconf -n"];
    for block in ["event_exporter own {", "event_exporter latchmail {"] {
        assert!(settings.contains(block), "{settings}");
    }
    let service = server.serve().await;
    check_event_of_a_delivery(&server, &service).await;
    drop(service);
    let output = server.detach().await;
    assert_eq!(output.status, 0, "{output:?}");
    assert_eq!(server.configuration().await, before);
}

#[tokio::test]
async fn without_notices_about_deliveries_the_service_opens_connections() {
    // The operator's exporter has the name of Latchmail's, so Latchmail cannot add its own.
    let exporter = match DovecotVersion::installed().unwrap() {
        DovecotVersion::V2_3 => {
            "event_exporter latchmail {\n  transport = log\n  format = json\n  format_args = time-rfc3339\n}\n"
        }
        DovecotVersion::V2_4 => "event_exporter latchmail {\n  driver = log\n  format = json\n}\n",
    };
    for (settings, expected) in [
        // No process of Dovecot reports events.
        (
            "stats_writer_socket_path =\n",
            "note: Dovecot sent no notice about a delivery",
        ),
        (
            exporter,
            "warning: Dovecot does not send notices about changes",
        ),
    ] {
        let server = ExistingServer::start().await;
        server.add_dovecot_settings(settings);
        let before = server.configuration().await;
        let output = server.attach(&["--yes"], "").await;
        assert_eq!(output.status, 0, "{output:?}");
        assert!(output.stdout.contains(expected), "{output:?}");
        let attached = server.configuration().await;
        let is_notices = |path: &String| path.contains("latchmail-notices");
        assert!(!attached.keys().any(is_notices), "{:?}", attached.keys());
        let service = server.serve().await;
        check_event_of_a_delivery(&server, &service).await;
        drop(service);
        let output = server.detach().await;
        assert_eq!(output.status, 0, "{output:?}");
        assert_eq!(server.configuration().await, before);
    }
}

#[tokio::test]
async fn an_interrupted_attachment_is_undone() {
    let server = ExistingServer::start().await;
    let before = server.configuration().await;
    for (index, milliseconds) in [300, 900].into_iter().enumerate() {
        let mut command = server.attach_command(&["--yes"]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(milliseconds)).await;
        child.kill().await.unwrap();
        if index % 2 == 1 {
            let again = server.attach(&["--yes"], "").await;
            assert_eq!(again.status, 0, "{again:?}");
        }
        let output = server.detach().await;
        assert_eq!(output.status, 0, "after {milliseconds} ms: {output:?}");
        assert_eq!(
            server.configuration().await,
            before,
            "after {milliseconds} ms"
        );
        assert!(has_no_traces(server.config().parent().unwrap()));
    }
}

#[tokio::test]
async fn a_failed_step_undoes_all_changes() {
    let server = ExistingServer::start().await;
    // The submission service rejects every message. The check of the submission is the last one.
    let rejecting = ["submission_sender_restrictions = reject".to_owned()];
    server.set_parameters(&rejecting).await;
    let before = server.configuration().await;
    let output = server.attach(&["--yes"], "").await;
    assert_eq!(output.status, 1, "{output:?}");
    assert!(
        output
            .stderr
            .contains("the submission service did not accept a message"),
        "{output:?}"
    );
    assert_eq!(server.configuration().await, before);
    assert!(has_no_traces(server.config().parent().unwrap()));
    let existing = server.log_in(&login_name("bob"), &password("bob")).await;
    assert!(existing.is_some());
}

#[tokio::test]
async fn a_later_change_of_the_operator_survives_detach() {
    let server = ExistingServer::start().await;
    let output = server.attach(&["--yes"], "").await;
    assert_eq!(output.status, 0, "{output:?}");
    let changed = ["message_size_limit = 50000000".to_owned()];
    server.set_parameters(&changed).await;
    let output = server.detach().await;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(
        output.stdout.contains("was changed after the attachment"),
        "{output:?}"
    );
    let main_cf = std::fs::read_to_string(server.postfix().join("main.cf")).unwrap();
    assert!(
        main_cf.contains("message_size_limit = 50000000"),
        "{main_cf}"
    );
    assert!(!main_cf.contains("latchmail-"), "{main_cf}");
    assert!(!main_cf.contains("virtual_alias_domains"), "{main_cf}");
}
