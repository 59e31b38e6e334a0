//! Fuzz targets that check properties of the client for any reply of a mail server and for any
//! folder name. See [`latchmail_core::fuzzing`].

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, mem};

use bytes::Bytes;
use imap_proto::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::capabilities::Capabilities;
use super::change::StoreMode;
use super::command::Command;
use super::list::{COUNTS, MODSEQS};
use super::read::{MessageRef, beginning_in_open_folder};
use super::search::{SearchKey, identity_of_stored, undeleted};
use super::session::Session;
use super::wire::{Wire, parse};
use super::{Error, NewMessage, Uid, fetch, listed, quoted, utf7};
use crate::flag::Flag;

/// The timeout has no effect, because the connection closes after the last reply.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Checks that encoding and decoding do not change the name. Also checks that no character of the
/// name ends a line or a string of the command.
///
/// # Panics
/// Panics if the name changes, or if the command contains a character that is not printable ASCII.
pub fn encoded_name(name: &str) {
    let encoded = utf7::encode(name);
    let inner = quoted(&encoded).map(|text| text[1..text.len() - 1].to_owned());
    let inner = inner.unwrap_or_else(|| unreachable!("{encoded:?} cannot be quoted"));
    assert!(printable(inner.as_bytes()), "{inner:?}");
    let mut escaped = false;
    for c in inner.chars() {
        assert!(escaped || c != '"', "{inner:?} ends early");
        escaped = c == '\\' && !escaped;
    }
    assert!(!escaped, "{inner:?} escapes its end");
    // The name INBOX is case-insensitive (RFC 3501, section 5.1).
    if !encoded.eq_ignore_ascii_case("INBOX") {
        assert_eq!(utf7::decode(&encoded), name);
    }
    let _ = utf7::decode(name);
    let command = Command::new("").string(name);
    let texts = command.literals.iter().map(|(text, _)| text);
    for text in texts.chain([&command.end]) {
        assert!(printable(text.as_bytes()), "{text:?}");
    }
    if let Some((_, literal)) = command.literals.first() {
        assert_eq!(literal, name.as_bytes());
    }
    if let Some(flag) = Flag::named(name) {
        let atom = |b: u8| b.is_ascii_graphic() && !b"(){%*\"".contains(&b);
        assert!(flag.as_str().bytes().all(atom), "{flag:?}");
    }
}

/// Reads replies of a mail server. Checks that the result does not depend on the sizes of the
/// network packets.
///
/// # Panics
/// Panics if the result depends on the packet sizes.
pub fn imap_replies(bytes: &[u8]) {
    let read = |size: usize| {
        let server = Server::sending(bytes.chunks(size).map(<[u8]>::to_vec).collect());
        let mut wire = Wire::new(Box::new(server));
        let mut folders = listed::Collected::default();
        let mut messages = fetch::Collected::default();
        let mut frames = Vec::new();
        block_on(async {
            while let Ok(frame) = wire.frame().await {
                match parse(&frame.bytes) {
                    Ok(Response::Fetch(seq, attributes)) => messages.add(seq, &attributes, &frame),
                    Ok(reply) => folders.add(&reply, &frame),
                    Err(_) => {}
                }
                frames.push((frame.bytes, frame.id));
            }
        });
        (frames, folders.into_folders().unwrap_or_default())
    };
    let whole = read(bytes.len().max(1));
    let length: usize = whole.0.iter().map(|(frame, _)| frame.len()).sum();
    assert!(length <= bytes.len());
    assert_eq!(whole, read(7));
}

/// Runs every operation of a session against a test server. The server sends the next of `replies`
/// in response to each command. The bits of `can` are the server's capabilities. `name` is the
/// folder name and the search term.
///
/// # Panics
/// Panics if a command contains a character that is not printable ASCII.
pub fn imap_session(can: u8, name: &str, replies: &[Vec<u8>]) {
    let bit = |n: u8| can & (1 << n) != 0;
    let capabilities = Capabilities {
        list_extended: bit(0),
        list_status: bit(1),
        special_use: bit(1),
        literal_plus: bit(2),
        r#move: true,
        object_id: bit(3),
        guid: bit(4),
        unselect: bit(5),
        uid_plus: true,
        condstore: bit(6),
        qresync: bit(6),
        ..Capabilities::default()
    };
    block_on(operations(capabilities, name, replies));
}

/// Runs the operations on several connections, because a connection cannot be used after an invalid
/// reply.
async fn operations(capabilities: Capabilities, name: &str, replies: &[Vec<u8>]) {
    let session = || {
        let wire = Wire::new(Box::new(Server::replying(replies)));
        Session::new(wire, capabilities, TIMEOUT)
    };
    let message = MessageRef {
        path: name,
        uid_validity: 1,
        uid: Uid(1),
    };
    let mut listed = session();
    let _ = listed.folders(COUNTS).await;
    let _ = listed.page(name, super::page::PageTop::Offset(0), 2).await;
    let mut synced = session();
    let _ = synced.status(name, MODSEQS).await;
    let _ = synced.flags_since(name, 1, Some(1)).await;
    let _ = synced.flags_since(name, 1, None).await;
    let mut one = session();
    let _ = one.message(message).await;
    let _ = one.header_at(message).await;
    if let Ok(mut folder) = one.selected_folder() {
        let _ = folder.summaries(&[1, 2].map(Uid), &mut |_| {}).await;
        let _ = folder.longer_headers(&[Uid(1)]).await;
    }
    let mut found = session();
    let _ = found.search(name, &[SearchKey::Text(name.into())]).await;
    if let Ok(mut folder) = found.selected_folder()
        && let Ok(positions) = folder.positions(&[Uid(1)]).await
    {
        assert!(positions.iter().all(|message| message.uid == Uid(1)));
    }
    let mut met = session();
    let _ = met.existing(name, 1, &[Uid(1)]).await;
    if let Ok(Some((_, uids))) = met.arrivals(name, 2).await {
        assert!(uids.iter().all(|uid| uid.0 >= 2));
    }
    let _ = met.identities_at(&[message]).await;
    let _ = undeleted(&mut met, name).await;
    let _ = identity_of_stored(&mut met, message).await;
    let _ = beginning_in_open_folder(&mut met, message, 100).await;
    let mut sent = session();
    if let Ok(Some(length)) = sent.start_stream_at(message, &(0..100)).await {
        let mut left = length;
        while left > 0
            && let Ok(bytes) = sent.next_bytes().await
        {
            assert!((1..=left).contains(&bytes.len()));
            left -= bytes.len();
        }
    }
    let mut changed = session();
    let _ = changed.select(name).await;
    let flags: Vec<Flag> = Flag::named(name).into_iter().collect();
    if let Ok(mut folder) = changed.selected_folder() {
        let _ = folder.store(&[Uid(1)], &flags, StoreMode::Add, None).await;
        if let Ok(states) = folder.flags_of(&[Uid(1)]).await {
            assert!(states.iter().all(|message| message.uid == Uid(1)));
        }
        let _ = folder.state(Uid(1)).await;
        let replace = StoreMode::Replace;
        let _ = folder.store(&[Uid(1)], &flags, replace, Some(1)).await;
        let _ = folder.expunge_unchanged(Uid(1), 1).await;
        if let Ok(Some(copied)) = folder.copy_to(&[Uid(1)], name).await {
            assert!(copied.uids.len() <= 1);
        }
        if let Ok(Some(moved)) = folder.move_to(&[Uid(1)], name).await {
            assert!(moved.uids.len() <= 1);
        }
        let _ = folder.expunge(&[Uid(1)]).await;
    }
    let mut filed = session();
    let new = NewMessage {
        path: name,
        flags: &[],
        received_at: None,
        bytes: Bytes::from_static(b"a"),
    };
    if let Ok(true) = filed.begin_append(new.clone(), false).await {
        let _: Result<_, Error> = filed.end_append(None).await;
    }
    let mut identified = session();
    if let Ok(true) = identified.begin_append(new, true).await
        && let Ok(Some(stored)) = identified.end_append(Some(1)).await
        && let Some(message) = stored.message
    {
        let location = stored.location;
        assert!(location.is_some_and(|location| location.uid == message.uid));
    }
}

fn printable(text: &[u8]) -> bool {
    text.iter().all(|byte| (b' '..=b'~').contains(byte))
}

/// Returns a session with a server that sends the next of `replies` in response to each command.
#[cfg(test)]
pub(crate) fn session(replies: &[&str]) -> Session {
    let replies: Vec<_> = replies.iter().map(|r| r.as_bytes().to_vec()).collect();
    let wire = Wire::new(Box::new(Server::replying(&replies)));
    Session::new(wire, Capabilities::default(), TIMEOUT)
}

/// Runs a future that does not wait for another thread.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.unwrap_or_else(|error| unreachable!("no runtime: {error}"));
    runtime.block_on(work)
}

/// A mail server that sends given replies. The server closes the connection after the last reply.
#[derive(Debug, Default)]
struct Server {
    /// The replies to the next commands.
    replies: VecDeque<Vec<u8>>,
    /// The bytes that the client has not read. Each read of the client returns at most one piece.
    unread: VecDeque<Vec<u8>>,
    /// The beginning of a line that the client is writing.
    line: Vec<u8>,
    /// The number of bytes of the current literal that the client has not written.
    literal: usize,
}

impl Server {
    fn sending(unread: VecDeque<Vec<u8>>) -> Self {
        Self {
            unread,
            ..Self::default()
        }
    }

    fn replying(replies: &[Vec<u8>]) -> Self {
        Self {
            replies: replies.iter().cloned().collect(),
            ..Self::default()
        }
    }

    fn written(&mut self, byte: u8) {
        if self.literal > 0 {
            self.literal -= 1;
            return;
        }
        self.line.push(byte);
        if !self.line.ends_with(b"\r\n") {
            return;
        }
        let mut line = mem::take(&mut self.line);
        line.truncate(line.len() - 2);
        assert!(printable(&line), "{:?}", String::from_utf8_lossy(&line));
        let line = String::from_utf8_lossy(&line);
        if let Some((_, length)) = line
            .strip_suffix('}')
            .and_then(|line| line.rsplit_once('{'))
        {
            self.literal = length.trim_end_matches('+').parse().unwrap_or_default();
            if !length.ends_with('+') {
                self.unread.push_back(b"+ go on\r\n".to_vec());
            }
            return;
        }
        let Some(mut reply) = self.replies.pop_front() else {
            return;
        };
        // The text after `!` is the status of the command. The status is OK if the reply contains
        // no `!`.
        let end = memchr::memchr(b'!', &reply).map(|at| reply.split_off(at).split_off(1));
        let tag = line.split(' ').next().unwrap_or_default();
        reply.extend_from_slice(tag.as_bytes());
        reply.extend_from_slice(end.as_deref().unwrap_or(b" OK done\r\n"));
        self.unread.push_back(reply);
    }
}

impl AsyncRead for Server {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.unread.pop_front() {
            let rest = piece.split_off(piece.len().min(buffer.remaining()));
            buffer.put_slice(&piece);
            if !rest.is_empty() {
                self.unread.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Server {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        for byte in bytes {
            self.written(*byte);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
