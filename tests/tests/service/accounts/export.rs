//! The archive with the data of an account, and its import with the operator's command.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use latchmail_tests::process::kill;
use latchmail_tests::{
    Imap, PASSWORD, Person, Random, Response, Service, Setup, TEST_TIMEOUT, add_alias, imap,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const EXPORT: &str = "/api/v1/profile/export";

/// A message as another IMAP client sees it: the arrival time, the flags and the bytes.
type Seen = (i64, BTreeSet<String>, Vec<u8>);

/// Returns the messages of a folder, in the order of their UIDs.
async fn seen(client: &mut Imap, folder: &str) -> Vec<Seen> {
    client.examine(folder).await.unwrap();
    let fetched = client.uid_fetch("1:*", "(UID FLAGS INTERNALDATE BODY.PEEK[])");
    let fetched: Vec<_> = fetched.await.unwrap().try_collect().await.unwrap();
    let mut messages: Vec<_> = fetched
        .iter()
        .map(|message| {
            let flags = message.flags().map(|flag| format!("{flag:?}"));
            let flags = flags.filter(|flag| flag != "Recent").collect();
            let received_at = message.internal_date().unwrap().timestamp();
            let body = message.body().unwrap().to_vec();
            (message.uid.unwrap(), (received_at, flags, body))
        })
        .collect();
    messages.sort_by_key(|(uid, _)| *uid);
    messages.into_iter().map(|(_, message)| message).collect()
}

async fn append(client: &mut Imap, folder: &str, flags: &str, day: u32, message: &[u8]) {
    let date = format!("\"{day:02}-Feb-2020 04:05:06 +0100\"");
    let appended = client.append(folder, Some(flags), Some(&date), message);
    appended.await.unwrap();
}

/// Waits until an export has ended, at most this time, and returns it.
async fn ended(person: &Person<'_>, id: &str, limit: Duration) -> Value {
    let deadline = Instant::now() + limit;
    loop {
        let export = person.send(&format!("GET {EXPORT}/{id}")).await;
        let export = export.succeeds(200);
        if export["status"] == "ready" || export["status"] == "failed" {
            return export;
        }
        assert!(Instant::now() < deadline, "{export}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Returns a part of the archive of an export.
async fn part(person: &Person<'_>, id: &str, range: &str) -> Response {
    let request = person
        .service
        .request(&format!("GET {EXPORT}/{id}/archive"));
    let request = request.bearer_auth(&person.access).header("range", range);
    Response::of(request).await
}

/// Downloads the archive of an export to a file.
async fn download(person: &Person<'_>, id: &str) -> PathBuf {
    let archive = person.send(&format!("GET {EXPORT}/{id}/archive")).await;
    assert_eq!(archive.status, 200);
    let path = person.service.state.join("archive.zip");
    std::fs::write(&path, &archive.body).unwrap();
    path
}

/// Returns a JSON file of an archive.
fn file_of_archive(archive: &Path, name: &str) -> Value {
    let folder = archive.with_extension("unpacked");
    let mut unpack = Command::new("python3");
    unpack.args(["-m", "zipfile", "-e"]).arg(archive);
    assert!(unpack.arg(&folder).status().unwrap().success());
    serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

/// Imports a file or a folder into a mailbox, and returns the numbers of messages.
async fn import(service: &Service, address: &str, file: &str, more: &[&str]) -> Value {
    let arguments = [&["mailbox", "import", address, file, "--json"][..], more].concat();
    let output = service.operator_with_all_settings(&arguments, &[]).await;
    serde_json::from_str(&output.succeeds()).unwrap()
}

#[tokio::test]
async fn an_archive_has_all_data_and_its_import_restores_the_mailbox_once() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    add_alias(&ada, "shop@first.test", true).await;
    let mut client = imap(&ada).await;
    for folder in ["Work", "Work/Dr&AOQ-ft"] {
        client.create(folder).await.unwrap();
    }
    let plain = b"From: a@outside.test\r\nSubject: One\r\n\r\nFrom here\r\n>From there\r\n\r\n";
    let large = [
        &b"Subject: Large\r\n\r\n"[..],
        &b"0123456789 abc\r\n".repeat(20_000),
    ]
    .concat();
    append(&mut client, "INBOX", "(\\Seen todo)", 3, plain).await;
    append(&mut client, "INBOX", "(\\Seen todo)", 3, plain).await;
    append(&mut client, "Work", "(\\Flagged \\Deleted)", 4, &large).await;
    append(
        &mut client,
        "Work/Dr&AOQ-ft",
        "(\\Draft)",
        5,
        b"A: b\r\n\r\nno line end",
    )
    .await;

    let token = ada.token(&["mail:read", "mail:write"]).await;
    let uid = ada.uids("Work").await[0];
    let flag = format!("POST /api/v1/mail/messages/{uid}/flag");
    let request = service.request(&flag);
    let request = request.bearer_auth(token["token"].as_str().unwrap());
    let label = json!({ "flags": ["$Label"], "action": "add", "folder": "Work" });
    Response::of_json(request, &label).await.succeeds(200);

    let export = ada.send(&format!("POST {EXPORT}")).await.succeeds(202);
    let id = export["id"].as_str().unwrap();
    bob.send(&format!("GET {EXPORT}/{id}"))
        .await
        .fails(404, "Export not found");
    let export = ended(&ada, id, TEST_TIMEOUT).await;
    assert_eq!(
        (&export["status"], &export["messages"]),
        (&json!("ready"), &json!(4)),
        "{export}"
    );

    // A download can be continued.
    let file = download(&ada, id).await;
    let whole = std::fs::read(&file).unwrap();
    assert_eq!(export["size"], whole.len());
    let first = part(&ada, id, "bytes=0-99").await;
    let rest = part(&ada, id, "bytes=100-").await;
    assert_eq!((first.status, rest.status), (206, 206));
    assert_eq!([first.body, rest.body].concat(), whole);
    part(&ada, id, "bytes=9999999999-")
        .await
        .fails(416, "The range is outside of the content");

    let journal = file_of_archive(&file, "journal.json");
    assert_eq!(journal["complete"], true, "{journal}");
    let change = &journal["changes"][0];
    assert_eq!(
        (&change["kind"], &change["grant"]),
        (&json!("flags"), &token["id"])
    );

    // The import stores each message once, with the same bytes, flags and dates.
    let file = file.display().to_string();
    let imported = import(&service, &bob.address, &file, &[]).await;
    let expected = json!({ "imported": 4, "unchanged": 0, "failed": 0 });
    assert_eq!(imported, expected);
    let imported = import(&service, &bob.address, &file, &[]).await;
    let expected = json!({ "imported": 0, "unchanged": 4, "failed": 0 });
    assert_eq!(imported, expected);
    let mut other = imap(&bob).await;
    for folder in ["INBOX", "Work", "Work/Dr&AOQ-ft"] {
        let original = seen(&mut client, folder).await;
        assert_eq!(seen(&mut other, folder).await, original, "{folder}");
    }

    // A new export replaces the archive.
    let next = ada.send(&format!("POST {EXPORT}")).await.succeeds(202);
    ada.send(&format!("GET {EXPORT}/{id}"))
        .await
        .fails(404, "Export not found");
    let next = next["id"].as_str().unwrap();
    ended(&ada, next, TEST_TIMEOUT).await;
    let exports = service.state.join("exports");
    assert!(exports.join(format!("{next}.zip")).exists());
    assert!(!exports.join(format!("{id}.zip")).exists());
}

#[tokio::test]
async fn mbox_files_and_maildir_folders_are_imported_with_flags_and_dates() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mbox = service.state.join("mail.mbox");
    let text = "From a@b Tue Nov 14 22:13:20 2023\nStatus: RO\nSubject: One\n\n>From here\n\n\
        From a@b Tue Nov 14 22:13:21 2023\nSubject: Two\n\nb\n\n";
    std::fs::write(&mbox, text).unwrap();
    let maildir = service.state.join("maildir");
    std::fs::create_dir_all(maildir.join("cur")).unwrap();
    std::fs::create_dir_all(maildir.join(".Old.Sub/cur")).unwrap();
    let letter = maildir.join(".Old.Sub/cur/1700000000.a:2,FS");
    std::fs::write(letter, "Subject: Three\n\nc\n").unwrap();
    let path = |path: &PathBuf| path.display().to_string();
    for (expected, unchanged) in [(2, 0), (0, 2)] {
        let more = ["--folder", "Imported"];
        let imported = import(&service, &ada.address, &path(&mbox), &more).await;
        let expected = json!({ "imported": expected, "unchanged": unchanged, "failed": 0 });
        assert_eq!(imported, expected);
    }
    let imported = import(&service, &ada.address, &path(&maildir), &[]).await;
    assert_eq!(imported["imported"], 1);
    let mut client = imap(&ada).await;
    let messages = seen(&mut client, "Imported").await;
    let flags = |message: &Seen| message.1.iter().cloned().collect::<Vec<_>>();
    assert_eq!(
        (messages[0].0, flags(&messages[0])),
        (1_700_000_000, vec!["Seen".to_owned()])
    );
    assert!(messages[0].2.ends_with(b"\r\n\r\nFrom here\r\n"));
    assert_eq!(
        (messages[1].0, flags(&messages[1])),
        (1_700_000_001, Vec::new())
    );
    let messages = seen(&mut client, "Old/Sub").await;
    assert_eq!(flags(&messages[0]), ["Flagged", "Seen"]);

    // A message that the mail server cannot store is reported, and the others are imported.
    std::fs::write(&mbox, "From a\nA: \0\n\nFrom a\nSubject: Four\n\n").unwrap();
    let arguments = ["mailbox", "import", &ada.address, &path(&mbox)];
    let output = service.operator_with_all_settings(&arguments, &[]).await;
    assert_eq!(output.status, 3, "{output:?}");
    assert_eq!(
        output.stdout,
        "1 imported, 0 already there, 1 not imported\n"
    );
}

#[tokio::test]
async fn an_export_without_space_fails_and_leaves_no_files() {
    let setup = Setup::default().with_mail().with("export.max_bytes = 1000");
    let service = setup.start().await;
    let ada = service.person("ada").await;
    let export = ada.send(&format!("POST {EXPORT}")).await.succeeds(202);
    let id = export["id"].as_str().unwrap();
    let export = ended(&ada, id, TEST_TIMEOUT).await;
    assert_eq!(export["error"], "There is not enough space for the export");
    ada.send(&format!("GET {EXPORT}/{id}/archive"))
        .await
        .fails(409, "The export failed");
    let files = std::fs::read_dir(service.state.join("exports")).unwrap();
    assert_eq!(files.count(), 0);
}

/// Exports a mailbox with `count` messages while the host is killed `kills` times, imports the
/// archive with an interruption, and compares the mailboxes.
async fn round_trip_with_kills(setup: Setup, count: u32, kills: u32) {
    let mut service = setup.start().await;
    let addresses = {
        let (ada, bob) = (service.person("ada").await, service.person("bob").await);
        let mut client = imap(&ada).await;
        client.create("Many").await.unwrap();
        for number in 0..count {
            let folder = if number % 2 == 0 { "INBOX" } else { "Many" };
            let flags = ["()", "(\\Seen)", "(\\Answered $Label)"][number as usize % 3];
            let text = format!("Subject: {number}\r\n\r\nFrom {number}\r\n");
            append(&mut client, folder, flags, 1 + number % 28, text.as_bytes()).await;
        }
        [ada.address.clone(), bob.address.clone()]
    };
    let mut process = service.restart_in_process().await;
    let ada = Person::sign_in(&service, &addresses[0], PASSWORD).await;
    let export = ada.send(&format!("POST {EXPORT}")).await.succeeds(202);
    let id = export["id"].as_str().unwrap();
    let mut random = Random::new(std::process::id().into());
    for _ in 0..kills {
        sleep(random.millis(500)).await;
        kill(process.pid());
        process.start().await;
    }
    let export = ended(&ada, id, Duration::from_mins(5)).await;
    assert_eq!(
        (&export["status"], &export["messages"]),
        (&json!("ready"), &json!(count))
    );
    let file = download(&ada, id).await.display().to_string();
    // The first import is interrupted.
    let arguments = ["mailbox", "import", &addresses[1], &file];
    let interrupted = service.operator_with_all_settings(&arguments, &[]);
    let _ = tokio::time::timeout(Duration::from_secs(1), interrupted).await;
    let imported = import(&service, &addresses[1], &file, &[]).await;
    let number = |name: &str| imported[name].as_u64().unwrap();
    assert_eq!(number("imported") + number("unchanged"), u64::from(count));
    let bob = Person::sign_in(&service, &addresses[1], PASSWORD).await;
    let (mut client, mut other) = (imap(&ada).await, imap(&bob).await);
    for folder in ["INBOX", "Many"] {
        let original = seen(&mut client, folder).await;
        assert!(seen(&mut other, folder).await == original, "{folder}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_continues_after_the_host_was_killed() {
    round_trip_with_kills(Setup::default().with_mail(), 400, 3).await;
}

mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn ten_thousand_messages_are_the_same_after_an_export_with_kills_and_an_import() {
        round_trip_with_kills(Setup::default().with_own_mail(), 10_000, 10).await;
    }
}
