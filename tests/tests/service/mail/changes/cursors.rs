//! Cursors and parameters: what is refused, and pages.

use std::collections::BTreeSet;
use std::time::Duration;

use latchmail_tests::{MailboxCopy, Service, append_message, imap, percent_encoded, store_flags};
use serde_json::Value;

use super::{changes, types};

const EXPIRED: &str = "Cursor expired";
const INVALID: &str = "Invalid changes parameters";

fn cursor(page: &Value) -> String {
    page["cursor"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_unknown_empty_or_foreign_cursor_has_expired() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let own = cursor(&ada.changes("", "").await.succeeds(200));
    let of_bob = cursor(&bob.changes("", "").await.succeeds(200));
    let of_inbox = cursor(&ada.changes("", "folder=INBOX").await.succeeds(200));
    let path = "GET /api/v1/mail/changes";
    ada.send(&format!("{path}?since="))
        .await
        .fails(410, EXPIRED);
    ada.send(&format!("{path}?since=&folder=INBOX"))
        .await
        .fails(410, EXPIRED);
    let cut = &own[..own.len() - 1];
    let mut changed = own.clone().into_bytes();
    let middle = changed.len() / 2;
    changed[middle] = if changed[middle] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).unwrap();
    for garbage in [
        "x",
        "0",
        " ",
        "garbage",
        "99999999999999999999",
        "../../etc/passwd",
        "' OR '1'='1",
        "\u{1f980}",
        "AAAAAAAAAAAAAAAAAAAAAAAA",
        cut,
        &of_bob,
        &of_inbox,
        &"A".repeat(1_000),
    ] {
        let response = ada.changes(garbage, "").await;
        response.fails(410, EXPIRED);
    }
    for (since, rest) in [
        (&own, "&folder=INBOX"),
        (&of_inbox, ""),
        (&of_inbox, "&folder=Archive"),
        (&of_bob, "&folder=INBOX"),
    ] {
        ada.changes(since, rest).await.fails(410, EXPIRED);
    }
    bob.changes(&own, "").await.fails(410, EXPIRED);
    ada.changes(&changed, "").await.fails(410, EXPIRED);
    ada.changes(&own, "").await.succeeds(200);
    ada.changes(&of_inbox, "&folder=INBOX").await.succeeds(200);
    bob.changes(&of_bob, "").await.succeeds(200);
}

#[tokio::test]
async fn a_cursor_expires_after_its_changes_were_deleted_and_a_new_one_is_valid() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let old = cursor(&ada.changes("", "").await.succeeds(200));
    append_message(&mut client, "INBOX", "one").await;
    let current = cursor(&ada.changes(&old, "").await.succeeds(200));
    service.clock.advance(Duration::from_hours(24 * 60));
    let directory = &service.app().directory;
    directory.sweep(service.clock.now()).await.unwrap();
    let ada = ada.sign_in_again().await;
    ada.changes(&old, "").await.fails(410, EXPIRED);
    // No change after this cursor was deleted.
    let page = ada.changes(&current, "").await.succeeds(200);
    assert!(page["changes"].as_array().unwrap().is_empty());
    append_message(&mut client, "INBOX", "two").await;
    let page = ada.changes(&current, "").await.succeeds(200);
    assert_eq!(types(page["changes"].as_array().unwrap()), ["created"]);
    let mut copy = MailboxCopy::of(&ada).await;
    append_message(&mut client, "INBOX", "three").await;
    assert_eq!(types(&changes(&mut copy, &ada).await), ["created"]);
}

#[tokio::test]
async fn invalid_parameters_are_refused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let since = cursor(&ada.changes("", "").await.succeeds(200));
    for limit in ["0", "501", "-1", "1.5", "x", "", "99999999999999999999"] {
        let rest = format!("limit={limit}");
        ada.changes("", &rest).await.fails(400, INVALID);
        let rest = format!("&limit={limit}");
        ada.changes(&since, &rest).await.fails(400, INVALID);
    }
    for limit in ["1", "500"] {
        let rest = format!("&limit={limit}");
        ada.changes(&since, &rest).await.succeeds(200);
    }
    for folder in ["Nowhere", "INBOX/Nowhere", "%"] {
        let rest = format!("folder={}", percent_encoded(folder));
        ada.changes("", &rest).await.fails(404, "Folder not found");
    }
}

#[tokio::test]
async fn the_default_limit_is_one_hundred_and_pages_continue() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let copy = MailboxCopy::of(&ada).await;
    for number in 0..105 {
        append_message(&mut client, "INBOX", &format!("message {number}")).await;
    }
    let first = ada.changes(&copy.cursor, "").await.succeeds(200);
    let count = |page: &Value| page["changes"].as_array().unwrap().len();
    assert_eq!((count(&first), &first["more"]), (100, &true.into()));
    let second = ada.changes(&cursor(&first), "").await.succeeds(200);
    assert_eq!((count(&second), &second["more"]), (5, &false.into()));
    let expected = ada.content_equal_to_imap(&mut client).await;
    for limit in [1, 2, 7, 104, 105, 106, 500] {
        let mut paged = copy.clone();
        let changes = paged.update(&ada, || limit).await;
        let uids: BTreeSet<u64> = changes.iter().filter_map(|c| c["uid"].as_u64()).collect();
        assert_eq!((changes.len(), uids.len()), (105, 105), "limit {limit}");
        assert_eq!(paged.content(), expected, "limit {limit}");
    }
    // A page can be read again.
    let again = ada.changes(&copy.cursor, "").await.succeeds(200);
    assert_eq!(again["changes"], first["changes"]);
}

#[tokio::test]
async fn changes_during_paging_are_returned_too() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for path in ["Work", "Play"] {
        client.create(path).await.unwrap();
    }
    for number in 0..20 {
        append_message(&mut client, "INBOX", &format!("message {number}")).await;
    }
    let mut copy = MailboxCopy::of(&ada).await;
    client.select("INBOX").await.unwrap();
    client.uid_mv("1:10", "Work").await.unwrap();
    // Each page is followed by another change to messages and folders that the next pages contain.
    for step in 0..60_u32 {
        let page = ada.changes(&copy.cursor, "&limit=2").await.succeeds(200);
        copy.apply(&page);
        match step {
            0..10 => {
                let command = ["+FLAGS (\\Seen)", "-FLAGS (\\Seen)"][step as usize % 2];
                store_flags(&mut client, "Work", 1 + step / 2, command).await;
            }
            10 => {
                // Some servers cannot rename an open folder.
                client.examine("INBOX").await.unwrap();
                client.rename("Work", "Home").await.unwrap();
            }
            11 => {
                client.select("Home").await.unwrap();
                client.uid_mv("1:5", "Play").await.unwrap();
            }
            12 => client.delete("Play").await.unwrap(),
            13 => {
                client.create("Play").await.unwrap();
                append_message(&mut client, "Play", "again").await;
            }
            14 => {
                client.select("INBOX").await.unwrap();
                client.uid_mv("11:15", "Play").await.unwrap();
            }
            _ if page["more"] == false => break,
            _ => {}
        }
    }
    assert!(copy.update(&ada, || 2).await.is_empty(), "pages do not end");
    assert_eq!(copy.content(), ada.content_equal_to_imap(&mut client).await);
}

#[tokio::test]
async fn a_folder_created_during_paging_comes_before_its_messages() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let mut copy = MailboxCopy::of(&ada).await;
    client.create("Work").await.unwrap();
    for number in 0..3 {
        append_message(&mut client, "Work", &format!("message {number}")).await;
    }
    let first = ada.changes(&copy.cursor, "&limit=1").await.succeeds(200);
    assert_eq!(first["more"], true);
    assert_eq!(
        types(first["changes"].as_array().unwrap()),
        ["folderCreated"]
    );
    copy.apply(&first);
    let rest = changes(&mut copy, &ada).await;
    assert_eq!(types(&rest), ["created"; 3]);
}
