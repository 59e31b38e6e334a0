//! The files of the index: who can read them, and when they are deleted.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use latchmail_tests::{Person, Service, append_message, imap};
use tokio::time::{Instant, sleep};

/// The maximum time until the service deletes the index of a deleted account.
const DELETION_TIMEOUT: Duration = Duration::from_secs(90);

/// Returns all files and folders below a folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(entries(&path));
        }
        all.push(path);
    }
    all
}

/// Returns the files of the indexes. Each account has a folder for its index.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut all = entries(root);
    all.retain(|path| path.is_file() && path.parent() != Some(root));
    all
}

async fn indexed(service: &Service) -> Person<'_> {
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for number in 0..20 {
        append_message(&mut client, "INBOX", &format!("message {number}")).await;
    }
    ada.wait_for_index().await;
    ada
}

#[tokio::test]
async fn only_the_services_user_can_read_the_files() {
    let service = Service::with_mail().await;
    indexed(&service).await;
    let root = service.state.join("index");
    let mut all = entries(&root);
    assert!(all.iter().any(|path| path.is_file()));
    all.push(root);
    let own = std::fs::metadata(&service.state).unwrap().uid();
    for path in all {
        let found = std::fs::metadata(&path).unwrap();
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        let mode = found.permissions().mode() & 0o7777;
        assert_eq!(mode, expected, "{}: {mode:o}", path.display());
        assert_eq!(found.uid(), own, "{}", path.display());
    }
}

#[tokio::test]
async fn the_database_contains_no_text_of_messages() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let message = "From: Grace <sender@confidential.test>\r\nTo: ada@first.test\r\nSubject: topsecretsubject\r\n\
        Message-ID: <hiddenid@confidential.test>\r\n\r\nclassifiedbody\r\n";
    client.append("INBOX", None, None, message).await.unwrap();
    ada.wait_for_index().await;
    assert_eq!(ada.found("classifiedbody", "").await, ["topsecretsubject"]);
    ada.changes("", "").await.succeeds(200);
    ada.send("GET /api/v1/mail/threads").await.succeeds(200);
    for row in service.dump().await {
        for text in ["topsecret", "classified", "confidential.test", "hiddenid"] {
            assert!(!row.contains(text), "{text}: {row}");
        }
    }
}

#[tokio::test]
async fn the_index_of_a_deleted_account_is_deleted() {
    let service = Service::with_mail().await;
    let ada = indexed(&service).await;
    let root = service.state.join("index");
    assert!(!files(&root).is_empty());
    let delete = format!("account delete {} --yes", ada.address);
    service.operator(&delete, "").await.succeeds();
    let deadline = Instant::now() + DELETION_TIMEOUT;
    while !files(&root).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", files(&root));
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn the_index_of_another_account_remains() {
    let service = Service::with_mail().await;
    let bob = service.person("bob").await;
    let mut client = imap(&bob).await;
    append_message(&mut client, "INBOX", "a letter to Bob").await;
    bob.wait_for_index().await;
    let ada = indexed(&service).await;
    assert_eq!(bob.found("letter", "").await, ["a letter to Bob"]);
    assert!(bob.found("message", "&folder=*").await.is_empty());
    assert!(ada.found("bob", "&folder=*").await.is_empty());
}

#[tokio::test]
async fn a_deleted_index_is_built_again() {
    let mut service = Service::with_mail().await;
    let (access, address) = {
        let ada = indexed(&service).await;
        (ada.access, ada.address)
    };
    service.stop().await;
    std::fs::remove_dir_all(service.state.join("index")).unwrap();
    service.restart().await;
    let ada = Person {
        service: &service,
        address,
        access,
        refresh: String::new(),
    };
    let found = ada.search("message", "").await.succeeds(200);
    assert_eq!(found["total"], 20);
    ada.wait_for_index().await;
    assert_eq!(ada.found("message", "").await.len(), 20);
}

#[tokio::test]
async fn without_an_index_nothing_is_written() {
    let service = Service::with_mail_and("index.enabled = false").await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "one").await;
    for rest in ["", "&folder=*"] {
        let found = ada.search("one", rest).await.succeeds(200);
        assert_eq!(
            (&found["index"], &found["total"]),
            (&"off".into(), &1.into())
        );
    }
    assert!(files(&service.state.join("index")).is_empty());
    // The change log does not need the index.
    let cursor = ada.changes("", "").await.succeeds(200)["cursor"].clone();
    append_message(&mut client, "INBOX", "two").await;
    let changes = ada
        .changes(cursor.as_str().unwrap(), "")
        .await
        .succeeds(200);
    assert_eq!(changes["changes"][0]["type"], "created");
}

#[tokio::test]
async fn an_index_is_deleted_if_it_needs_too_much_disk_space() {
    let mut service = Service::with_mail().await;
    let (access, address) = {
        let ada = indexed(&service).await;
        (ada.access, ada.address)
    };
    service
        .restart_with(|config| config.index.max_bytes = 1)
        .await;
    let root = service.state.join("index");
    let deadline = Instant::now() + DELETION_TIMEOUT;
    while !files(&root).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", files(&root));
        sleep(Duration::from_millis(200)).await;
    }
    let ada = Person {
        service: &service,
        address,
        access,
        refresh: String::new(),
    };
    let found = ada.search("message", "").await.succeeds(200);
    assert_eq!(found["total"], 20);
    assert_ne!(found["index"], "ready");
}
