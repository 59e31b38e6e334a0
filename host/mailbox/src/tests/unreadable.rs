//! Tests of messages that the mail server fails to return, with a proxy in front of a real server.

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy};
use tokio::net::{TcpListener, TcpStream};

use super::search_index::{find, ready, uids, with_index_behind};
use crate::search::IndexStatus;

/// The reaction of the proxy to a command that reads the text of the message.
#[derive(Clone, Copy, Debug)]
enum Reaction {
    /// The command gets NO. The proxy replaces it with a command that fails.
    Refuse,
    /// The connection closes.
    Close,
}

/// The IMAP UID of the message that cannot be read.
const UNREADABLE: u32 = 3;

/// Returns `true` if the line is a command that reads the text of [`UNREADABLE`].
fn reads_text(line: &str) -> bool {
    let Some((_, rest)) = line.split_once(" UID FETCH ") else {
        return false;
    };
    let Some((set, items)) = rest.split_once(' ') else {
        return false;
    };
    let includes = |range: &str| {
        let (first, last) = range.split_once(':').unwrap_or((range, range));
        let uid = |text: &str| text.parse::<u32>().unwrap_or(0);
        (uid(first)..=uid(last)).contains(&UNREADABLE)
    };
    items.contains("BODY.PEEK[]<0.65536>") && set.split(',').any(includes)
}

/// Starts a proxy. Returns its port.
fn start_proxy(server: u16, reaction: Reaction) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let listener = TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let (from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let mut lines = BufReader::new(from_client).lines();
                let forward = async {
                    while let Ok(Some(mut line)) = lines.next_line().await {
                        if reads_text(&line) {
                            let tag = line.split(' ').next().unwrap_or_default();
                            match reaction {
                                Reaction::Refuse => line = format!("{tag} UID COPY 1 None"),
                                Reaction::Close => return,
                            }
                        }
                        line.push_str("\r\n");
                        if to_server.write_all(line.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                };
                tokio::select! {
                    () = forward => {}
                    _ = copy(&mut from_server, &mut to_client) => {}
                }
            });
        }
    });
    port
}

async fn the_index_contains_all_other_messages(reaction: Reaction) {
    let proxy = move |port| start_proxy(port, reaction);
    with_index_behind(proxy, async |test, _folder| {
        let subjects = ["red 1", "red 2", "red 3", "red 4", "red 5"];
        let numbers = test.append("INBOX", &subjects).await;
        ready(&test).await;
        let expected = [numbers[4], numbers[3], numbers[1], numbers[0]];
        let found = find(&test, Some("INBOX"), "red").await;
        assert_eq!(
            (found.index, uids(&found)),
            (IndexStatus::Ready, expected.to_vec())
        );
        // New messages are indexed too.
        let new = test.append("INBOX", &["red 6"]).await;
        let found = find(&test, Some("INBOX"), "red").await;
        assert_eq!(found.index, IndexStatus::Ready);
        assert_eq!((uids(&found)[0], found.total), (new[0], 5));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_omits_a_message_that_the_server_refuses_to_return() {
    the_index_contains_all_other_messages(Reaction::Refuse).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_omits_a_message_at_which_the_server_closes_the_connection() {
    the_index_contains_all_other_messages(Reaction::Close).await;
}
