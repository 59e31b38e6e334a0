//! Tests of the search index.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use latchmail_core::caller::MailCredential;
use latchmail_core::config;
use latchmail_core::message_number::MessageNumber;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::{TestMailbox, access, short_message, with_mailbox};
use crate::index::credentials::IndexCredentials;
use crate::search::{IndexStatus, SearchRequest, SearchResult, Sort};
use crate::{Error, Mail, MailSettings};

/// Maximum time until an index is complete.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Credentials;

impl IndexCredentials for Credentials {
    /// The credential of `bob` is never available, so the build of this index hangs.
    fn credential<'a>(
        &'a self,
        account: &'a str,
    ) -> BoxFuture<'a, Result<Option<MailCredential>, Error>> {
        Box::pin(async move {
            if account == "bob" {
                std::future::pending::<()>().await;
            }
            Ok(Some(access(account, "index").credential))
        })
    }
}

/// Runs `body` with a mail server, and with a service that has a search index.
async fn with_index<F>(body: impl FnOnce(TestMailbox, TempDir) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    with_index_behind(|port| port, body).await;
}

/// Works like [`with_index`]. The service connects to the port that `proxy` returns for the port of
/// the mail server.
pub(super) async fn with_index_behind<F>(
    proxy: impl FnOnce(u16) -> u16 + Send + 'static,
    body: impl FnOnce(TestMailbox, TempDir) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    with_settings(proxy, config::Index::default(), body).await;
}

async fn with_settings<F>(
    proxy: impl FnOnce(u16) -> u16 + Send + 'static,
    settings: config::Index,
    body: impl FnOnce(TestMailbox, TempDir) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    with_mailbox(async move |mut test| {
        let folder = tempfile::tempdir().unwrap();
        let server = config::Imap {
            address: format!("127.0.0.1:{}", proxy(test.dovecot.port())),
            ..test.dovecot.config()
        };
        let settings = MailSettings {
            index: Some(config::Index {
                path: folder.path().to_owned(),
                ..settings
            }),
            ..MailSettings::default()
        };
        let mail = Mail::new(&server, test.fresh.directory.clone(), settings).unwrap();
        mail.index.set_credentials(Arc::new(Credentials));
        test.mail = Arc::new(mail);
        let indexer = tokio::spawn(Arc::clone(&test.mail.index).run());
        body(test, folder).await;
        indexer.abort();
    })
    .await;
}

pub(super) async fn find(test: &TestMailbox, folder: Option<&str>, query: &str) -> SearchResult {
    let request = SearchRequest {
        query,
        operators: true,
        folder,
        sort: Sort::Newest,
        offset: 0,
        limit: 10,
    };
    let found = test.mail.search.find(&test.access, request).await;
    found.unwrap().unwrap()
}

/// Waits until the index is complete.
pub(super) async fn ready(test: &TestMailbox) {
    let started = Instant::now();
    while find(test, Some("INBOX"), "x").await.index != IndexStatus::Ready {
        assert!(started.elapsed() < TIMEOUT, "the index is not complete");
        sleep(Duration::from_millis(20)).await;
    }
}

pub(super) fn uids(result: &SearchResult) -> Vec<MessageNumber> {
    result.hits.iter().map(|hit| hit.summary.number).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_finds_what_the_mail_server_found_before_it_was_complete() {
    with_index(async |test, _folder| {
        let numbers = test.append("INBOX", &["red 1", "blue", "red 2"]).await;
        let before = find(&test, Some("INBOX"), "red").await;
        assert_eq!(before.index, IndexStatus::Building);
        assert_eq!(uids(&before), [numbers[2], numbers[0]]);
        ready(&test).await;
        let after = find(&test, Some("INBOX"), "red").await;
        assert_eq!((uids(&after), after.total), (uids(&before), 2));
        for (hit, of_server) in after.hits.iter().zip(&before.hits) {
            assert_eq!(hit.summary, of_server.summary);
            assert_eq!(hit.folder, "INBOX");
            assert!(hit.snippet.is_some());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_with_long_paths_do_not_prevent_the_index() {
    with_index(async |test, _folder| {
        let mut client = test.dovecot.client("ada");
        let nested = |levels: usize| vec!["x".repeat(200); levels].join("/");
        // The path of the second folder is too long for the service.
        for levels in [6, 12] {
            client.ok(&format!("CREATE \"{}\"", nested(levels)));
            client.append(&nested(levels), "()", &short_message("long", "needle"));
        }
        ready(&test).await;
        let found = find(&test, None, "needle").await;
        assert_eq!((found.index, found.total), (IndexStatus::Ready, 1));
        assert_eq!(found.hits[0].folder, nested(6));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_another_client_are_in_the_next_search() {
    with_index(async |test, _folder| {
        test.append("INBOX", &["red 1"]).await;
        ready(&test).await;
        let mut client = test.dovecot.client("ada");
        client.append("INBOX", "(\\Flagged)", &short_message("red-2", "needle"));
        let found = find(&test, Some("INBOX"), "needle").await;
        assert_eq!((found.index, found.total), (IndexStatus::Ready, 1));
        assert_eq!(found.hits[0].summary.flags, ["\\Flagged"]);
        assert_eq!(found.hits[0].summary.seq, 2);
        client.ok("SELECT INBOX");
        client.ok("STORE 2 +FLAGS (\\Seen)");
        let found = find(&test, Some("INBOX"), "needle").await;
        assert_eq!(found.hits[0].summary.flags, ["\\Flagged", "\\Seen"]);
        client.ok("CREATE Other");
        client.ok("MOVE 2 Other");
        let number = found.hits[0].summary.number;
        assert_eq!(find(&test, Some("INBOX"), "needle").await.total, 0);
        let found = find(&test, None, "needle").await;
        assert_eq!(
            (found.index, uids(&found)),
            (IndexStatus::Ready, vec![number])
        );
        assert_eq!(found.hits[0].folder, "Other");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_hangs_does_not_delay_other_builds() {
    with_index(async |test, _folder| {
        let directory = &test.fresh.directory;
        directory.with("bob", "bob@example.org", &[]).await;
        let bob = access("bob", "first");
        let request = SearchRequest {
            query: "red",
            operators: true,
            folder: Some("INBOX"),
            sort: Sort::Newest,
            offset: 0,
            limit: 10,
        };
        let found = test.mail.search.find(&bob, request).await.unwrap().unwrap();
        assert_eq!(found.index, IndexStatus::Building);
        test.append("INBOX", &["red 1"]).await;
        ready(&test).await;
        let found = test.mail.search.find(&bob, request).await.unwrap().unwrap();
        assert_eq!(found.index, IndexStatus::Building);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_too_large_is_deleted_and_not_built_again() {
    let settings = config::Index {
        max_bytes: 4096,
        ..config::Index::default()
    };
    with_settings(
        |port| port,
        settings,
        async |test, folder| {
            let number = test.append("INBOX", &["red 1"]).await;
            let started = Instant::now();
            let found = loop {
                let found = find(&test, Some("INBOX"), "red").await;
                if found.index == IndexStatus::Off {
                    break found;
                }
                assert!(started.elapsed() < TIMEOUT, "{:?}", found.index);
                sleep(Duration::from_millis(20)).await;
            };
            assert_eq!(uids(&found), number);
            assert!(!folder.path().join("ad").join("ada").exists());
            let found = find(&test, Some("INBOX"), "red").await;
            assert_eq!(found.index, IndexStatus::Off);
        },
    )
    .await;
}
