use latchmail_core::caller::Origin;

use super::*;
use crate::Directory;
use crate::modules::NewVersion;
use crate::testing::{Fresh, NOW, both};

const PLENTY: u64 = 1024 * 1024;

/// Counts the sets whose size is wrong. Supports ASCII keys only.
const MISCOUNTED: &str = "SELECT COUNT(*) FROM stores s WHERE used <> (SELECT COALESCE(SUM(64 + length(e.key) + length(e.value)), 0) \
    FROM store_entries e WHERE e.account_id = s.account_id AND e.module = s.module)";

fn of(account_id: &str) -> AliasCaller<'_> {
    AliasCaller {
        account_id,
        app_password_id: Some(""),
        sid: account_id,
        grant: None,
        at: NOW,
        member: None,
    }
}

fn entry<'a>(module: &'a str, key: &'a str) -> Entry<'a> {
    Entry { module, key }
}

/// Installs modules with these names. Only their existence matters.
async fn install(directory: &Directory, names: &[&str]) {
    let version = |name| NewVersion {
        module: name,
        digest: "a",
        version: "1.0.0",
        component: b"a",
        source: false,
        artifact: None,
    };
    let set: Vec<_> = names.iter().copied().map(version).collect();
    let origin = Origin::operator();
    let installed = directory.modules.install(&set, 10, NOW, &origin).await;
    installed.unwrap();
}

/// Removes a module with its data. Returns `true` if there was anything to remove.
async fn purge(directory: &Directory, module: &str) -> bool {
    let origin = Origin::operator();
    let removed = directory.modules.remove(module, true, NOW, &origin).await;
    removed.unwrap()
}

/// Creates two accounts, each with a session of the same name, and the modules that store data for
/// them.
async fn two(directory: &Directory) {
    install(directory, &["notes", "digest", "m", "n"]).await;
    directory.with("ada", "ada@example.org", &["ada"]).await;
    directory.with("bob", "bob@example.org", &["bob"]).await;
}

/// Sets a value unconditionally, with a large quota.
async fn set(directory: &Directory, account: &str, module: &str, key: &str, value: &[u8]) {
    let entry = entry(module, key);
    let set = directory
        .modules
        .store(of(account), entry, Expected::Any, Some(value), PLENTY);
    assert_eq!(set.await.unwrap(), Change::Done);
}

async fn get(directory: &Directory, account: &str, module: &str, key: &str) -> Option<Vec<u8>> {
    let found = directory.modules.stored(account, entry(module, key)).await;
    found.unwrap()
}

async fn keys(directory: &Directory, prefix: &str, after: &str, limit: u32) -> Vec<String> {
    let found = directory
        .modules
        .stored_keys("ada", "notes", prefix, after, limit);
    found.await.unwrap()
}

async fn a_module_finds_what_it_kept_for_the_account_and_nothing_of_anothers(fresh: Fresh) {
    let directory = &fresh.directory;
    two(directory).await;
    set(directory, "ada", "notes", "k", b"ada's").await;
    set(directory, "bob", "notes", "k", b"bob's").await;
    set(directory, "ada", "digest", "k", b"the digest's").await;
    set(directory, "ada", "digest", "other", b"\0\xff").await;
    set(directory, "ada", "digest", "empty", b"").await;
    let got = async |account, module, key| get(directory, account, module, key).await;
    assert_eq!(got("ada", "notes", "k").await.unwrap(), b"ada's");
    assert_eq!(got("bob", "notes", "k").await.unwrap(), b"bob's");
    assert_eq!(got("ada", "digest", "k").await.unwrap(), b"the digest's");
    assert_eq!(got("ada", "digest", "other").await.unwrap(), b"\0\xff");
    assert_eq!(got("ada", "digest", "empty").await.unwrap(), b"");
    assert_eq!(got("bob", "digest", "k").await, None);
    assert_eq!(keys(directory, "", "", 10).await, ["k"]);

    let deleted =
        directory
            .modules
            .store(of("ada"), entry("notes", "k"), Expected::Any, None, PLENTY);
    assert_eq!(deleted.await.unwrap(), Change::Done);
    assert_eq!(got("ada", "notes", "k").await, None);
    assert_eq!(got("bob", "notes", "k").await.unwrap(), b"bob's");
    assert!(got("ada", "digest", "k").await.is_some());
}

async fn keys_are_listed_in_the_order_of_their_bytes_by_prefix_and_in_stretches(fresh: Fresh) {
    let directory = &fresh.directory;
    two(directory).await;
    let ordered = [
        "A",
        "B",
        "a",
        "a b",
        "a/1",
        "a/10",
        "a/2",
        "a/é",
        "a0",
        "b",
        "z",
        "é",
        "\u{d7ff}",
        "\u{e000}",
        "😀",
        "😁",
        "\u{10ffff}",
        "\u{10ffff}x",
    ];
    for key in ordered.into_iter().rev() {
        set(directory, "ada", "notes", key, b"1").await;
    }
    assert_eq!(keys(directory, "", "", 1000).await, ordered);
    assert_eq!(
        keys(directory, "a/", "", 1000).await,
        ["a/1", "a/10", "a/2", "a/é"]
    );
    assert_eq!(keys(directory, "a/1", "", 1000).await, ["a/1", "a/10"]);
    assert_eq!(keys(directory, "a/", "a/10", 1).await, ["a/2"]);
    assert_eq!(keys(directory, "a/", "a", 2).await, ["a/1", "a/10"]);
    assert_eq!(keys(directory, "a/", "b", 2).await, [""; 0]);
    assert_eq!(keys(directory, "😀", "", 9).await, ["😀"]);
    assert_eq!(keys(directory, "\u{d7ff}", "", 9).await, ["\u{d7ff}"]);
    let last = ["\u{10ffff}", "\u{10ffff}x"];
    assert_eq!(keys(directory, "\u{10ffff}", "", 9).await, last);
    assert_eq!(keys(directory, "c", "", 9).await, [""; 0]);
    // Prefixes have no wildcards.
    for wild in ["%", "_", "*", "a%", "[a]"] {
        assert_eq!(keys(directory, wild, "", 9).await, [""; 0]);
    }
}

async fn a_value_is_changed_only_from_what_was_expected(fresh: Fresh) {
    let directory = &fresh.directory;
    two(directory).await;
    let change = async |expected: Option<&[u8]>, value: Option<&[u8]>| {
        let expected = Expected::Value(expected);
        let entry = entry("notes", "k");
        let changed = directory
            .modules
            .store(of("ada"), entry, expected, value, PLENTY);
        changed.await.unwrap()
    };
    assert_eq!(change(Some(b"1"), Some(b"2")).await, Change::Unexpected);
    assert_eq!(change(None, Some(b"1")).await, Change::Done);
    assert_eq!(change(None, Some(b"2")).await, Change::Unexpected);
    assert_eq!(change(Some(b""), Some(b"2")).await, Change::Unexpected);
    assert_eq!(change(Some(b"1"), Some(b"2")).await, Change::Done);
    let got = get(directory, "ada", "notes", "k").await;
    assert_eq!(got.unwrap(), b"2");
    assert_eq!(change(Some(b"1"), None).await, Change::Unexpected);
    assert_eq!(change(Some(b"2"), None).await, Change::Done);
    assert_eq!(change(None, None).await, Change::Done);
    assert_eq!(get(directory, "ada", "notes", "k").await, None);
}

async fn of_many_that_count_up_at_once_none_is_lost(fresh: Fresh) {
    let directory = &fresh.directory;
    two(directory).await;
    let count_up = async || {
        loop {
            let before = get(directory, "ada", "notes", "n").await;
            let number: u32 = before
                .as_deref()
                .map_or(0, |n| str::from_utf8(n).unwrap().parse().unwrap());
            let next = (number + 1).to_string();
            let changed = directory.modules.store(
                of("ada"),
                entry("notes", "n"),
                Expected::Value(before.as_deref()),
                Some(next.as_bytes()),
                PLENTY,
            );
            if changed.await.unwrap() == Change::Done {
                return;
            }
        }
    };
    futures_util::future::join_all((0..12).map(|_| count_up())).await;
    let got = get(directory, "ada", "notes", "n").await;
    assert_eq!(got.unwrap(), b"12");
}

async fn what_an_account_may_have_kept_is_bounded_to_the_byte(fresh: Fresh) {
    let directory = &fresh.directory;
    two(directory).await;
    let quota = 2 * u64::try_from(ENTRY_OVERHEAD).unwrap() + 10;
    let store = async |account, module, key, value: Option<&[u8]>| {
        let stored =
            directory
                .modules
                .store(of(account), entry(module, key), Expected::Any, value, quota);
        stored.await.unwrap()
    };
    // Two keys of one byte and eight bytes of values use the whole quota.
    assert_eq!(store("ada", "m", "a", Some(b"1234")).await, Change::Done);
    assert_eq!(store("ada", "m", "b", Some(b"12345")).await, Change::Full);
    assert_eq!(store("ada", "m", "é", Some(b"1234")).await, Change::Full);
    assert_eq!(store("ada", "m", "b", Some(b"1234")).await, Change::Done);
    assert_eq!(get(directory, "ada", "m", "é").await, None);
    assert_eq!(store("ada", "m", "a", Some(b"12345")).await, Change::Full);
    let got = get(directory, "ada", "m", "a").await;
    assert_eq!(got.unwrap(), b"1234", "what is refused changes nothing");
    assert_eq!(store("ada", "m", "c", Some(b"")).await, Change::Full);
    // Other modules and accounts have quotas of their own.
    assert_eq!(store("ada", "n", "a", Some(b"1234")).await, Change::Done);
    assert_eq!(store("bob", "m", "a", Some(b"1234")).await, Change::Done);
    // Freed bytes can be used again.
    assert_eq!(store("ada", "m", "a", Some(b"1")).await, Change::Done);
    assert_eq!(store("ada", "m", "b", Some(b"1234567")).await, Change::Done);
    assert_eq!(store("ada", "m", "b", None).await, Change::Done);
    assert_eq!(store("ada", "m", "b", None).await, Change::Done);
    let long = vec![7; 8];
    assert_eq!(store("ada", "m", "b", Some(&long)).await, Change::Full);
    assert_eq!(store("ada", "m", "b", Some(&long[1..])).await, Change::Done);
    // Under a lower quota, the data may shrink but not grow.
    let low = async |key, value: Option<&[u8]>| {
        let stored = directory
            .modules
            .store(of("ada"), entry("m", key), Expected::Any, value, 10);
        stored.await.unwrap()
    };
    assert_eq!(low("b", Some(b"123456")).await, Change::Done);
    assert_eq!(low("b", Some(b"1234567")).await, Change::Full);
    assert_eq!(low("b", None).await, Change::Done);
    assert_eq!(fresh.number(MISCOUNTED).await, 0);
}

async fn what_was_kept_goes_with_its_account_or_when_its_module_is_purged(fresh: Fresh) {
    let directory = &fresh.directory;
    two(directory).await;
    for account in ["ada", "bob"] {
        for module in ["notes", "digest"] {
            set(directory, account, module, "k", b"v").await;
        }
    }
    let entries = "SELECT COUNT(*) FROM store_entries";
    let origin = Origin::default();
    let deleted = directory.accounts.delete("ada", NOW, &origin).await;
    assert!(deleted.unwrap());
    assert_eq!(fresh.number(entries).await, 2);
    assert!(purge(directory, "notes").await);
    assert!(!purge(directory, "notes").await);
    assert_eq!(get(directory, "bob", "notes", "k").await, None);
    assert!(get(directory, "bob", "digest", "k").await.is_some());
    // A new installation starts with its whole quota.
    install(directory, &["notes"]).await;
    set(directory, "bob", "notes", "k", b"v").await;
    assert_eq!(fresh.number("SELECT MAX(used) FROM stores").await, 66);
}

async fn what_a_module_kept_that_was_removed_without_it_can_still_be_purged(fresh: Fresh) {
    let directory = &fresh.directory;
    two(directory).await;
    set(directory, "ada", "notes", "k", b"v").await;
    let origin = Origin::operator();
    let removed = directory.modules.remove("notes", false, NOW, &origin);
    assert!(removed.await.unwrap());
    assert!(get(directory, "ada", "notes", "k").await.is_some());
    assert!(purge(directory, "notes").await);
    assert_eq!(get(directory, "ada", "notes", "k").await, None);
}

async fn nothing_is_kept_for_a_module_that_is_not_installed(fresh: Fresh) {
    let directory = &fresh.directory;
    two(directory).await;
    set(directory, "ada", "notes", "k", b"v").await;
    assert!(purge(directory, "notes").await);
    let value = Some(&b"v"[..]);
    let late =
        directory
            .modules
            .store(of("ada"), entry("notes", "k"), Expected::Any, value, PLENTY);
    assert_eq!(late.await.unwrap(), Change::Removed);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM stores").await, 0);
}

async fn what_is_kept_is_counted_right_while_it_is_purged(fresh: Fresh) {
    let directory = &fresh.directory;
    two(directory).await;
    let keep = async |key: &'static str| {
        for length in [900, 10, 500, 0] {
            let (entry, value) = (entry("notes", key), vec![7; length]);
            let set =
                directory
                    .modules
                    .store(of("ada"), entry, Expected::Any, Some(&value), PLENTY);
            let change = set.await.unwrap();
            assert!(
                matches!(change, Change::Done | Change::Removed),
                "{change:?}"
            );
        }
    };
    for _ in 0..5 {
        let keeping = futures_util::future::join(keep("a"), keep("b"));
        let forgetting = async {
            for _ in 0..5 {
                purge(directory, "notes").await;
                let left = "SELECT COUNT(*) FROM stores WHERE module = 'notes'";
                assert_eq!(fresh.number(left).await, 0);
                install(directory, &["notes"]).await;
            }
        };
        futures_util::future::join(keeping, forgetting).await;
        assert_eq!(fresh.number(MISCOUNTED).await, 0);
    }
}

async fn a_credential_that_has_ended_changes_nothing(fresh: Fresh) {
    let directory = &fresh.directory;
    two(directory).await;
    set(directory, "ada", "notes", "k", b"v").await;
    let strange = AliasCaller {
        sid: "bob",
        ..of("ada")
    };
    for caller in [strange, of("nobody")] {
        let change =
            directory
                .modules
                .store(caller, entry("notes", "k"), Expected::Any, None, PLENTY);
        assert_eq!(change.await.unwrap(), Change::CredentialOver);
    }
    assert!(get(directory, "ada", "notes", "k").await.is_some());
}

both!(
    a_module_finds_what_it_kept_for_the_account_and_nothing_of_anothers,
    keys_are_listed_in_the_order_of_their_bytes_by_prefix_and_in_stretches,
    a_value_is_changed_only_from_what_was_expected,
    of_many_that_count_up_at_once_none_is_lost,
    what_an_account_may_have_kept_is_bounded_to_the_byte,
    what_was_kept_goes_with_its_account_or_when_its_module_is_purged,
    what_a_module_kept_that_was_removed_without_it_can_still_be_purged,
    nothing_is_kept_for_a_module_that_is_not_installed,
    what_is_kept_is_counted_right_while_it_is_purged,
    a_credential_that_has_ended_changes_nothing,
);
