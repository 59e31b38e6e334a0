//! Streams bytes of a message. One FETCH requests all bytes, and the client reads the bytes in
//! pieces as they arrive.

use std::ops::Range;

use bytes::Bytes;
use imap_proto::{AttributeValue, MailboxDatum, Response, ResponseCode, Status};
use latchmail_core::message_number::Uid;

use super::fetch;
use super::selected::Selected;
use super::session::{SelectedFolder, Session};
use super::state::{Idle, State, Streaming};
use super::wire::{Item, Wire, parse};
use super::{Error, MessageRef};

impl Session {
    /// Opens the folder of `message` and works like [`SelectedFolder::start_stream`]. Sends the
    /// commands in one write. If the result is `None`, the message might exist. In that case the
    /// caller must check with [`Session::read_range_at`].
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn start_stream_at(
        &mut self,
        message: MessageRef<'_>,
        range: &Range<usize>,
    ) -> Result<Option<usize>, Error> {
        let Some(name) = super::utf7::name(message.path) else {
            return Ok(None);
        };
        let Some(quoted) = super::quoted(&name) else {
            return Ok(None);
        };
        let Idle { mut wire, .. } = self.connection.take_idle()?;
        wire.queue(&format!("EXAMINE {quoted}"));
        let selected = Selected {
            name,
            uid_validity: 0,
            exists: 0,
            has_modseqs: false,
            writable: None,
        };
        let head = Head::of(message.uid, Some(message.uid_validity));
        self.start(wire, selected, head, range).await
    }

    /// Sends the queued commands and FETCH, and reads the replies before the requested bytes.
    /// `selected` is the open folder after the commands have succeeded.
    async fn start(
        &mut self,
        mut wire: Wire,
        mut selected: Selected,
        mut head: Head,
        range: &Range<usize>,
    ) -> Result<Option<usize>, Error> {
        let exchange = async move {
            let tag = wire.queue(&fetch::piece(head.uid, range));
            let start = head.read(&mut wire, &tag).await?;
            if head.uid_validity.is_some() {
                selected.exists = head.exists;
                selected.uid_validity = head.opened.unwrap_or_default();
            }
            let (remaining, selected) = match start {
                Start::Bytes(remaining) if remaining > range.len() => {
                    return Err(Error::Protocol(
                        "the server announced more bytes than requested".into(),
                    ));
                }
                Start::Bytes(remaining) => {
                    let streaming = Streaming {
                        wire,
                        selected,
                        tag,
                        remaining,
                    };
                    return Ok((State::Streaming(streaming), Some(remaining)));
                }
                // The server is sending bytes of another message. Closing the connection is faster
                // than reading these bytes.
                Start::Another => return Ok((State::Broken, None)),
                Start::Empty => (Some(0), Some(selected)),
                Start::Nothing => (None, head.is_open.then_some(selected)),
            };
            Ok((State::Idle(Idle { wire, selected }), remaining))
        };
        self.connection
            .exchange(self.connection.timeout, exchange)
            .await
    }

    /// Returns the next requested bytes. The result has at least one byte. After the last byte,
    /// waits for the end of the command.
    ///
    /// # Errors
    /// Returns an [`Error`] if the connection fails or no stream has been started.
    pub async fn next_bytes(&mut self) -> Result<Bytes, Error> {
        let (bytes, is_last) = next_piece(self).await?;
        if is_last {
            end_stream(self).await?;
        }
        Ok(bytes)
    }
}

impl SelectedFolder<'_> {
    /// Requests a range of bytes of a message in the open folder. Returns the number of bytes that
    /// the server sends, or `None` if the message does not exist. The returned value is smaller
    /// than the length of `range` if the message ends within the range.
    ///
    /// [`Session::next_bytes`] returns the bytes. No other command is possible until the caller has
    /// read the last byte.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn start_stream(
        &mut self,
        uid: Uid,
        range: &Range<usize>,
    ) -> Result<Option<usize>, Error> {
        let (wire, selected) = self.session.connection.take_selected()?;
        self.session
            .start(wire, selected, Head::of(uid, None), range)
            .await
    }
}

/// Works like [`Session::next_bytes`], but returns the last bytes before the end of the command.
/// The second value is `true` for the last bytes. Then the caller must call [`end_stream`].
///
/// # Errors
/// Returns an [`Error`] if the connection fails or no stream has been started.
pub async fn next_piece(session: &mut Session) -> Result<(Bytes, bool), Error> {
    let connection = &mut session.connection;
    let State::Streaming(mut streaming) = connection.take() else {
        return Err(Error::Protocol("no bytes were requested".into()));
    };
    let exchange = async move {
        let bytes = streaming.wire.literal_bytes(streaming.remaining).await?;
        streaming.remaining -= bytes.len();
        let is_last = streaming.remaining == 0;
        Ok((State::Streaming(streaming), (bytes, is_last)))
    };
    connection.exchange(connection.timeout, exchange).await
}

/// Reads the end of the command after the last bytes of a stream.
///
/// # Errors
/// Returns an [`Error`] if the command fails, or if the last byte has not been read.
pub async fn end_stream(session: &mut Session) -> Result<(), Error> {
    let connection = &mut session.connection;
    let State::Streaming(Streaming {
        mut wire,
        selected,
        tag,
        remaining: 0,
    }) = connection.take()
    else {
        return Err(Error::Protocol("the stream has not ended".into()));
    };
    let exchange = async move {
        // Read the rest of the FETCH reply and the end of the command.
        wire.reply().await?;
        wire.finish_one(tag, &mut |_, _| Ok(())).await?.ok()?;
        let selected = Some(selected);
        Ok((State::Idle(Idle { wire, selected }), ()))
    };
    connection.exchange(connection.timeout, exchange).await
}

/// The server's reply to a request for bytes of a message.
enum Start {
    /// The server is sending this number of bytes.
    Bytes(usize),
    /// The message has no bytes in the range.
    Empty,
    /// The message does not exist.
    Nothing,
    /// The server is sending bytes of another message, because a new folder with the same name has
    /// replaced the folder.
    Another,
}

/// A reader of the replies before the requested bytes of a message.
struct Head {
    uid: Uid,
    /// The expected UIDVALIDITY, if the folder is opened in the same write.
    uid_validity: Option<u32>,
    /// The UIDVALIDITY that the server has sent.
    opened: Option<u32>,
    /// The number of messages in the folder, as reported by the server (EXISTS).
    exists: u32,
    /// `true` if the folder was already open, or if the server has opened the folder.
    is_open: bool,
    /// `true` if the server has sent data of the message.
    has_message: bool,
}

impl Head {
    fn of(uid: Uid, uid_validity: Option<u32>) -> Self {
        Self {
            uid,
            uid_validity,
            opened: None,
            exists: 0,
            is_open: uid_validity.is_none(),
            has_message: false,
        }
    }

    /// Writes the queued commands and reads the replies before the requested bytes. `tag` is the
    /// tag of the FETCH command. If the server sends no bytes, reads to the end of this command.
    async fn read(&mut self, wire: &mut Wire, tag: &str) -> Result<Start, Error> {
        wire.flush().await?;
        loop {
            let frame = match wire.next_item().await? {
                // The server sends only the requested bytes as a literal. An empty literal means
                // that the message has no bytes in the range.
                Item::Literal(0) => {
                    self.has_message = true;
                    wire.reply().await?
                }
                Item::Literal(length) if self.uid_validity == self.opened => {
                    return Ok(Start::Bytes(length));
                }
                Item::Literal(_) => return Ok(Start::Another),
                Item::Reply(frame) => frame,
            };
            match parse(&frame) {
                Ok(Response::Done {
                    tag: done_tag,
                    status,
                    outcome,
                }) => {
                    match wire.complete(&done_tag.0, status, outcome).status {
                        Status::Ok | Status::No if done_tag.0 == tag => {
                            return Ok(if self.has_message && self.uid_validity == self.opened {
                                Start::Empty
                            } else {
                                Start::Nothing
                            });
                        }
                        // A tag other than `tag` is the tag of EXAMINE.
                        Status::Ok => self.is_open = true,
                        Status::No => {}
                        // If no folder is open, the server rejects FETCH with BAD.
                        Status::Bad if done_tag.0 == tag && self.opened.is_none() => {
                            return Ok(Start::Nothing);
                        }
                        _ => {
                            return Err(Error::Protocol(
                                "the server rejected FETCH with BAD".into(),
                            ));
                        }
                    }
                }
                Ok(Response::Data {
                    status: Status::Ok,
                    outcome,
                }) => {
                    if let Some(ResponseCode::UidValidity(validity)) = outcome.code {
                        self.opened = Some(validity);
                    }
                }
                Ok(Response::MailboxData(MailboxDatum::Exists(n))) => self.exists = n,
                Ok(Response::Fetch(_, attributes)) => {
                    // A FETCH reply with only the UID and the flags, or with NIL instead of the
                    // bytes, does not prove that the message exists. The server can send such a
                    // reply even if the message was just expunged (RFC 7162, section 3.2).
                    let is_content = |a: &AttributeValue<'_>| {
                        matches!(a, AttributeValue::BodySection { data: Some(_), .. })
                    };
                    let uid = AttributeValue::Uid(self.uid.0);
                    self.has_message |=
                        attributes.contains(&uid) && attributes.iter().any(is_content);
                }
                Ok(_) => {}
                // The frame is the rest of a reply after an empty literal. `imap-proto` cannot
                // parse the rest alone.
                Err(Error::Protocol(_)) if self.has_message => {}
                Err(error) => return Err(error),
            }
        }
    }
}
