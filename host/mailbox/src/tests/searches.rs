//! Tests of searches.

use latchmail_core::message_number::MessageNumber;

use super::{TestMailbox, with_mailbox};
use crate::search::{IndexStatus, SearchRequest, SearchResult, Sort};

const MESSAGE: &str = "From: =?utf-8?Q?J=C3=BCrgen?= <juergen@example.net>\r\nTo: Ада <ada@example.org>\r\nCc: third@example.com\r\n\
    Subject: =?utf-8?B?0J/RgNC40LLQtdGC?= 日本\r\nDate: Fri, 20 Nov 2026 09:00:00 +0100\r\nMessage-ID: <l@x>\r\nMIME-Version: 1.0\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
    Stra=C3=9Fe \"quoted\" {3} 100% a*b back\\slash\r\n";

/// Searches a folder for literal text, without a search index.
async fn find(
    test: &TestMailbox,
    folder: &str,
    query: &str,
    offset: u32,
    limit: u32,
) -> Option<SearchResult> {
    let request = SearchRequest {
        query,
        operators: false,
        folder: Some(folder),
        sort: Sort::Newest,
        offset,
        limit,
    };
    test.mail.search.find(&test.access, request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_finds_any_text_in_the_searched_fields_and_ignores_case() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.append("INBOX", "()", MESSAGE.as_bytes());
        client.append("INBOX", "()", &super::short_message("other", "nothing"));
        for (term, found) in [
            ("jürgen", 1_u32),
            ("JÜRGEN", 1),
            ("привет", 1),
            ("日本", 1),
            ("third@EXAMPLE.com", 1),
            ("STRASSE", 0),
            ("straße", 1),
            ("\"quoted\"", 1),
            ("{3}", 1),
            ("100%", 1),
            ("a*b", 1),
            ("k\\s", 1),
            ("*", 1),
            ("\" OR ALL \"", 0),
            ("ada@example.org", 2),
            ("nothing", 1),
            ("Message-ID", 0),
            (&"long".repeat(200), 0),
        ] {
            let result = find(&test, "INBOX", term, 0, 10).await.unwrap();
            assert_eq!(result.index, IndexStatus::Off);
            assert_eq!(
                (u32::try_from(result.hits.len()), result.total),
                (Ok(found), found),
                "{term:?}"
            );
        }
        assert_eq!(find(&test, "Nope", "x", 0, 10).await, None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn search_results_are_paged_newest_first_with_the_numbers_of_the_listing() {
    with_mailbox(async |test| {
        let uids = test
            .append("INBOX", &["red 1", "blue", "red 2", "red 3"])
            .await;
        let found = async |offset, limit| {
            let found = find(&test, "inbox", "RED", offset, limit).await.unwrap();
            let uids: Vec<MessageNumber> =
                found.hits.iter().map(|hit| hit.summary.number).collect();
            (uids, found.total)
        };
        assert_eq!(found(0, 2).await, (vec![uids[3], uids[2]], 3));
        assert_eq!(found(2, 2).await, (vec![uids[0]], 3));
        assert_eq!(found(3, 2).await, (vec![], 3));
        assert_eq!(found(u32::MAX, 2).await, (vec![], 3));
    })
    .await;
}
